#include "watchctl/code/locate/code_name_indirect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/elf/debug_package.h"

#define LISTED_MAX 12

/* The part of a name that its implementations share: without underscores in front and the version behind. */
static const char *stem_of(const char *name, size_t *len)
{
	name += strspn(name, "_");
	*len = strcspn(name, "@");
	return name;
}

/* Whether @name is the stem, then "_" or ".", then more. */
static bool continues_stem(const char *name, const char *stem, size_t len)
{
	name += strspn(name, "_");
	return strncmp(name, stem, len) == 0 && (name[len] == '_' || name[len] == '.') && name[len + 1];
}

/* "__memcpy_chk_avx" is one of memcpy_chk's, not memcpy's: some other indirect function has a longer stem. */
static bool belongs_to_another(const struct symbol *v, size_t n, const char *name, size_t len)
{
	for (size_t i = 0; i < n; i++) {
		size_t other_len;
		const char *other;

		if (!v[i].indirect)
			continue;
		other = stem_of(v[i].name, &other_len);
		if (other_len > len && continues_stem(name, other, other_len))
			return true;
	}
	return false;
}

/* What chooses, and parts of what may be chosen. */
static bool is_no_implementation(const char *name)
{
	static const char *const ends[] = { ".resolver", ".ifunc", "_ifunc", ".cold" };
	size_t len = strcspn(name, "@");

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t n = strlen(ends[i]);

		if (len > n && strncmp(name + len - n, ends[i], n) == 0)
			return true;
	}
	return false;
}

bool code_indirect_each(const struct symbols *table, const char *indirect,
			bool (*each)(void *ctx, const struct symbol *implementation), void *ctx)
{
	size_t n, len;
	const struct symbol *v = symbols_all(table, &n);
	const char *stem = stem_of(indirect, &len);

	for (size_t i = 0; i < n; i++) {
		if (v[i].use != SYMBOL_CODE || v[i].indirect || !continues_stem(v[i].name, stem, len) ||
		    is_no_implementation(v[i].name) || belongs_to_another(v, n, v[i].name, len))
			continue;
		if (!each(ctx, &v[i]))
			return false;
	}
	return true;
}

struct listing {
	FILE *f;
	size_t n;
	uint64_t last; /* several names of one place count once */
};

static bool list_one(void *ctx, const struct symbol *implementation)
{
	struct listing *l = ctx;

	if (l->n && implementation->addr == l->last)
		return true;
	l->last = implementation->addr;
	if (l->n < LISTED_MAX)
		fprintf(l->f, "%s%.*s", l->n ? ", " : "", (int)strcspn(implementation->name, "@"),
			implementation->name);
	l->n++;
	return true;
}

/* The name of the function of @h's module that begins at runtime address @addr; NULL: none does. */
static const char *implementation_at(const struct hit *h, uint64_t addr)
{
	struct symbols *table = locate_index_symbols(h->index);
	uint64_t start, end;
	const struct symbol *sym;

	if (!table || addr < h->module->start || addr >= h->module->end)
		return NULL;
	sym = symbols_find(table, addr - h->module->bias, false, &start, &end);
	return sym && !sym->indirect && start == addr - h->module->bias ? sym->name : NULL;
}

/* Whether relocation @i of @data binds a symbol called @name; *@ret is the file address of its cell. */
static bool binds(Elf *elf, Elf_Data *data, int i, Elf_Data *symbols, size_t strings, const char *name,
		  uint64_t *ret)
{
	GElf_Rela rela;
	GElf_Sym sym;
	const char *s;

	if (!gelf_getrela(data, i, &rela) || !GELF_R_SYM(rela.r_info) ||
	    !gelf_getsym(symbols, (int)GELF_R_SYM(rela.r_info), &sym) || sym.st_shndx != SHN_UNDEF)
		return false;
	s = elf_strptr(elf, strings, sym.st_name);
	*ret = rela.r_offset;
	return s && strcmp(s, name) == 0;
}

/* What the loader wrote where @m refers to @name; 0: it does not, or is not bound yet. */
static uint64_t bound_to(const struct module *m, Elf *elf, const char *name, const struct memory_view *mem)
{
	for (Elf_Scn *scn = NULL; elf && (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr own, link, *sh = gelf_getshdr(scn, &own);
		Elf_Scn *table = sh && sh->sh_type == SHT_RELA ? elf_getscn(elf, sh->sh_link) : NULL;
		Elf_Data *data = table ? elf_getdata(scn, NULL) : NULL, *symbols;
		size_t n = data && sh->sh_entsize ? sh->sh_size / sh->sh_entsize : 0;

		if (!data || !gelf_getshdr(table, &link) || link.sh_type != SHT_DYNSYM)
			continue;
		symbols = elf_getdata(table, NULL);
		for (size_t i = 0; symbols && i < n; i++) {
			uint64_t cell, value;

			if (binds(elf, data, (int)i, symbols, link.sh_link, name, &cell) &&
			    memory_read(mem, m->bias + cell, &value, sizeof(value)))
				return value;
		}
	}
	return 0;
}

/* The implementation that the process uses, as some module's reference to it shows; NULL: unknown. */
static const char *chosen(struct search *s, const struct hit *h, const struct memory_view *mem)
{
	scoped(freep) char *plain = strndup(h->name, strcspn(h->name, "@"));
	const char *name = NULL;

	for (size_t i = 0; plain && mem && !name && i < s->modules->n; i++) {
		const struct module *m = &s->modules->v[i];
		struct locate_index *x = locator_index(s->locator, m);
		uint64_t addr = x ? bound_to(m, elffile_elf(locate_index_file(x)), plain, mem) : 0;

		name = addr ? implementation_at(h, addr) : NULL;
	}
	return name;
}

/* "a, b and 3 more"; NULL: no memory. *@n is how many there are. */
static char *implementations(const struct hit *h, size_t *n)
{
	struct symbols *table = locate_index_symbols(h->index);
	char *list = NULL;
	size_t len;
	struct listing l = { .f = open_memstream(&list, &len) };

	if (!l.f)
		return NULL;
	if (table)
		code_indirect_each(table, h->name, list_one, &l);
	if (l.n > LISTED_MAX)
		fprintf(l.f, " and %zu more", l.n - LISTED_MAX);
	*n = l.n;
	return fclose(l.f) == 0 ? list : NULL;
}

struct wc_error *code_indirect_error(struct search *s, const struct hit *h, const struct memory_view *mem)
{
	const char *used = chosen(s, h, mem), *module = basename(h->module->path);
	size_t n = 0;
	scoped(freep) char *list = implementations(h, &n);

	if (!list)
		return &wc_enomem;
	if (used)
		return wc_error_new(
			WC_ENAME,
			"'%s' of %s is an indirect function: its implementation is chosen when the program starts. "
			"This process uses '%.*s': name that.",
			s->name, module, (int)strcspn(used, "@"), used);
	if (n)
		return wc_error_new(
			WC_ENAME,
			"'%s' of %s is an indirect function: its implementation is chosen when the program starts. "
			"Name one of its implementations: %s.",
			s->name, module, list);
	return debug_package_hint(
		wc_error_new(
			WC_ENAME,
			"'%s' of %s is an indirect function: its implementation is chosen when the program starts. The "
			"implementations have no names here: install the debug information of that module, or give the "
			"address of the one in use (0x...).",
			s->name, module),
		h->module);
}
