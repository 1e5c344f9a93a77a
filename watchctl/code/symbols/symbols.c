#include "watchctl/code/symbols/symbols.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/code/interval.h"

/* Ranks: global names beat weak ones, these beat local ones; then plain beats __plain. */
#define RANK_BIND 0x100

struct symbols {
	struct symbol *v;
	size_t n, cap;
	struct intervals code, data, unsized;
	bool full; /* not only what the file exports */
};

static uint32_t symbol_rank(const struct symbol *s)
{
	uint32_t rank = s->bind == STB_GLOBAL ? 2 * RANK_BIND : s->bind == STB_WEAK ? RANK_BIND : 0;
	size_t underscores = strspn(s->name, "_");

	return rank + 0xff - (uint32_t)(underscores < 0xff ? underscores : 0xff);
}

/* The section of symbol: whether it holds code, and where it ends. */
struct home {
	bool alloc, code;
	uint64_t end;
};

static struct home section_of(Elf *elf, GElf_Word shndx, GElf_Addr bias)
{
	GElf_Shdr mem, *sh = gelf_getshdr(elf_getscn(elf, shndx), &mem);
	struct home h = { 0 };

	if (!sh)
		return h;
	h.alloc = sh->sh_flags & SHF_ALLOC;
	h.code = sh->sh_flags & SHF_EXECINSTR;
	h.end = sh->sh_addr + sh->sh_size + bias;
	return h;
}

static bool symbol_is_named(const char *name)
{
	return name && name[0] && strncmp(name, ".L", 2) != 0;
}

static bool add_interval(struct intervals *l, const struct symbol *s, uint64_t end, size_t item)
{
	struct interval i = { s->addr, end, 0, symbol_rank(s), (uint32_t)item };

	return vec_push(l->v, l->n, l->cap, i);
}

/* Takes symbol @i of the table if it names code or data. False: no memory. */
static bool add_symbol(struct symbols *t, Dwfl_Module *mod, const Elf *main, int i)
{
	GElf_Sym sym;
	GElf_Addr addr, bias;
	GElf_Word shndx;
	Elf *elf;
	const char *name = dwfl_module_getsym_info(mod, i, &sym, &addr, &shndx, &elf, &bias);
	unsigned int type;
	struct home home;
	struct symbol s;

	if (!symbol_is_named(name) || sym.st_shndx == SHN_UNDEF || sym.st_shndx == SHN_ABS ||
	    sym.st_shndx == SHN_COMMON)
		return true;
	type = GELF_ST_TYPE(sym.st_info);
	if (type == STT_SECTION || type == STT_FILE)
		return true;
	home = section_of(elf, sym.st_shndx == SHN_XINDEX ? shndx : sym.st_shndx, bias);
	if (!home.alloc)
		return true;
	t->full |= elf != main;
	s = (struct symbol){ .name = name,
			     .addr = addr,
			     .size = sym.st_size,
			     .use = type == STT_TLS ? SYMBOL_TLS
				    : home.code	    ? SYMBOL_CODE
						    : SYMBOL_DATA,
			     .indirect = type == STT_GNU_IFUNC,
			     .bind = GELF_ST_BIND(sym.st_info),
			     .visibility = GELF_ST_VISIBILITY(sym.st_other) };
	if (!vec_push(t->v, t->n, t->cap, s))
		return false;
	if (s.use == SYMBOL_TLS)
		return true;
	if (!s.size)
		return add_interval(&t->unsized, &s, home.end, t->n - 1);
	return add_interval(s.use == SYMBOL_CODE ? &t->code : &t->data, &s, s.addr + s.size, t->n - 1);
}

static bool elf_has_symtab(Elf *elf)
{
	for (Elf_Scn *scn = NULL; elf && (scn = elf_nextscn(elf, scn));) {
		GElf_Shdr mem, *sh = gelf_getshdr(scn, &mem);

		if (sh && sh->sh_type == SHT_SYMTAB)
			return true;
	}
	return false;
}

static int addr_cmp(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/*
 * Ends each symbol without a size at the next symbol. Only a full table can say what is next: in a
 * stripped file such symbols are dropped, for they would claim everything up to the next export.
 */
static bool bound_unsized(struct symbols *t)
{
	uint64_t *start;
	size_t next = 0;

	if (!t->unsized.n)
		return true;
	if (!t->full) {
		t->unsized.n = 0;
		return true;
	}
	start = calloc(t->n, sizeof(*start));
	if (!start)
		return false;
	for (size_t i = 0; i < t->n; i++)
		start[i] = t->v[i].addr;
	qsort(start, t->n, sizeof(*start), addr_cmp);
	intervals_sort(&t->unsized);
	for (size_t i = 0; i < t->unsized.n; i++) {
		struct interval *u = &t->unsized.v[i];

		while (next < t->n && start[next] <= u->start)
			next++;
		if (next < t->n && start[next] < u->end)
			u->end = start[next];
	}
	intervals_sort(&t->unsized);
	free(start);
	return true;
}

struct symbols *symbols_new(struct elffile *f)
{
	struct symbols *t = calloc(1, sizeof(*t));
	Dwfl_Module *mod = elffile_dwfl(f);
	int n = mod ? dwfl_module_getsymtab(mod) : 0;
	Elf *main = elffile_elf(f);

	if (!t)
		return NULL;
	t->full = elf_has_symtab(main);
	for (int i = 1; i < n; i++) {
		if (!add_symbol(t, mod, main, i)) {
			symbols_free(t);
			return NULL;
		}
	}
	if (!bound_unsized(t)) {
		symbols_free(t);
		return NULL;
	}
	intervals_sort(&t->code);
	intervals_sort(&t->data);
	return t;
}

void symbols_free(struct symbols *s)
{
	if (!s)
		return;
	intervals_deinit(&s->code);
	intervals_deinit(&s->data);
	intervals_deinit(&s->unsized);
	free(s->v);
	free(s);
}

const struct symbol *symbols_all(const struct symbols *s, size_t *n)
{
	*n = s->n;
	return s->v;
}

bool symbols_has_code(const struct symbols *s)
{
	return s->code.n || s->unsized.n;
}

bool symbols_are_exported_only(const struct symbols *s)
{
	return !s->full;
}

const struct symbol *symbols_find(const struct symbols *s, uint64_t addr, bool data, uint64_t *start,
				  uint64_t *end)
{
	const struct interval *i = intervals_find(&s->code, addr, NULL);

	if (!i && data)
		i = intervals_find(&s->data, addr, NULL);
	for (const struct interval *u = NULL; !i && (u = intervals_find(&s->unsized, addr, u));)
		if (data || s->v[u->item].use == SYMBOL_CODE)
			i = u;
	if (!i)
		return NULL;
	*start = i->start;
	*end = i->end;
	return &s->v[i->item];
}
