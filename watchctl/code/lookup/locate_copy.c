/*
 * When an executable refers to a library's variable by copy relocation ("environ", "stdout"), the library's
 * own object is dead: the live one is in the executable. Whatever the executable exports under the name of
 * a library's exported variable is the live one.
 */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/lookup/locate_find.h"
#include "watchctl/code/symbols/symbol_exported.h"

/* False: @elf does not define @name as data. */
static bool exported_data(Elf *elf, const char *name, GElf_Sym *ret)
{
	return symbol_exported(elf, name, ret) && GELF_ST_TYPE(ret->st_info) == STT_OBJECT;
}

struct wc_error *hit_follow_copy(struct search *s, struct hit *h)
{
	const struct module *exe = search_main_module(s->modules);
	struct locate_index *x = exe && exe != h->module ? locator_index(s->locator, exe) : NULL;
	scoped(freep) char *name = x ? hit_linker_name(h) : NULL;
	GElf_Sym sym, own;

	if (!x)
		return NULL;
	if (!name)
		return &wc_enomem;
	if ((h->has_die && !dwarf_die_flag(&h->die, DW_AT_external)) ||
	    !exported_data(elffile_elf(locate_index_file(h->index)), name, &own) ||
	    own.st_value + h->module->bias != h->addr ||
	    !exported_data(elffile_elf(locate_index_file(x)), name, &sym))
		return NULL;
	h->addr = sym.st_value + exe->bias;
	h->module = exe;
	if (!h->has_die)
		h->size = sym.st_size;
	return NULL;
}

/* Looks for the variable at an address, to learn its entry. */
struct entry_search {
	struct hit *hit;
	uint64_t vaddr;
};

static bool each_at_address(void *ctx, const struct variable_entry *e, enum name_fit fit)
{
	struct entry_search *s = ctx;
	struct hit *h = s->hit;
	Dwarf_Die die = e->die;
	uint64_t vaddr;

	(void)fit;
	if (locate_index_place(h->index, &die, &vaddr) != (h->is_tls ? PLACE_TLS : PLACE_ADDRESS) ||
	    vaddr != s->vaddr)
		return true;
	h->type = dtype_of(h->index, &die);
	h->has_die = true;
	h->die = die;
	h->unit = e->unit;
	return false;
}

struct wc_error *hit_find_entry(struct hit *h)
{
	struct entry_search s = { h, h->is_tls ? h->addr : h->addr - h->module->bias };
	scoped(freep) char *name = strdup(h->name);
	const char *last;

	if (!name)
		return &wc_enomem;
	search_strip_clone_suffix(name);
	last = locate_last_component(name);
	locate_index_find(h->index, last, false, each_at_address, &s);
	if (!h->has_die)
		locate_index_find(h->index, last, true, each_at_address, &s);
	return locate_index_lacks_memory(h->index) ? &wc_enomem : NULL;
}

/* Looks for the variable at an address, to learn its type. */
struct type_search {
	struct locate_index *x;
	uint64_t vaddr;
	struct dtype type;
};

static bool each_of_name(void *ctx, const struct variable_entry *e, enum name_fit fit)
{
	struct type_search *t = ctx;
	Dwarf_Die die = e->die;
	uint64_t vaddr;

	if (fit == FIT_EXACT && locate_index_place(t->x, &die, &vaddr) == PLACE_ADDRESS && vaddr == t->vaddr)
		t->type = dtype_of(t->x, &die);
	return !t->type.known;
}

/* A type of another size is not the type of this object. */
static bool type_suits(const struct dtype *t, const struct hit *h)
{
	uint64_t size = t->known ? dtype_size(t) : 0;

	return t->known && (!size || !h->size || size == h->size);
}

struct wc_error *hit_find_type(struct search *s, struct hit *h)
{
	scoped(freep) char *name = hit_linker_name(h);
	GElf_Sym sym;

	if (!name)
		return &wc_enomem;
	for (size_t i = 0; i < s->modules->n && !h->type.known && !h->is_tls; i++) {
		const struct module *m = &s->modules->v[i];
		struct type_search t = { .x = locator_index(s->locator, m) };

		if (!t.x)
			return &wc_enomem;
		if (m == h->module || !exported_data(elffile_elf(locate_index_file(t.x)), name, &sym))
			continue;
		t.vaddr = sym.st_value;
		locate_index_find(t.x, h->name, false, each_of_name, &t);
		if (type_suits(&t.type, h))
			h->type = t.type;
	}
	if (!h->type.known && type_suits(&s->declared, h))
		h->type = s->declared;
	return NULL;
}
