/*
 * Of several libraries that have a variable of one name, those that export it are meant by a name alone: the
 * others are the libraries' own ("environ" in the dynamic loader's symbol table is a copy that nobody else
 * sees).
 */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/lookup/locate_find.h"
#include "watchctl/code/symbols/symbol_exported.h"

char *hit_linker_name(struct hit *h)
{
	const char *linkage = h->has_die ? dwarf_die_linkage_name(&h->die) : NULL;

	return strdup(linkage ? linkage : h->has_die ? dwarf_diename(&h->die) : h->name);
}

static bool is_exported(struct hit *h)
{
	scoped(freep) char *name = hit_linker_name(h);
	GElf_Sym sym;

	return name && symbol_exported(elffile_elf(locate_index_file(h->index)), name, &sym) &&
	       sym.st_value + (h->is_tls ? 0 : h->module->bias) == h->addr;
}

/* What the program is linked with has not been loaded: there is nothing but the loader. */
static bool is_starting(struct search *s)
{
	const struct module *exe = search_main_module(s->modules);
	struct locate_index *x = exe ? locator_index(s->locator, exe) : NULL;
	Elf *elf = x ? elffile_elf(locate_index_file(x)) : NULL;
	size_t others = 0;

	for (size_t i = 0; i < s->modules->n; i++)
		others += &s->modules->v[i] != exe && s->modules->v[i].path[0] == '/';
	return others == 1 && elf && symbol_needs_libraries(elf);
}

/* Keeps the hits that @is says; @is: one for each. */
static void keep_hits(struct search *s, const bool *is)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->nhits; i++) {
		if (is[i])
			s->hit[kept++] = s->hit[i];
		else
			free(s->hit[i].name);
	}
	s->nhits = kept;
}

static bool module_exports(const struct search *s, const bool *exported, const struct module *m)
{
	for (size_t i = 0; i < s->nhits; i++)
		if (exported[i] && s->hit[i].module == m)
			return true;
	return false;
}

void search_prefer_exports(struct search *s)
{
	const struct module *exe = search_main_module(s->modules);
	scoped(freep) bool *exported = NULL, *kept = NULL;
	size_t n = 0;

	if (!s->nhits || s->source || s->functions)
		return;
	exported = calloc(s->nhits, sizeof(*exported));
	kept = calloc(s->nhits, sizeof(*kept));
	if (!exported || !kept)
		return;
	for (size_t i = 0; i < s->nhits; i++) {
		exported[i] = s->hit[i].module == exe || is_exported(&s->hit[i]);
		n += exported[i];
	}
	/* What a library has for itself beside what it exports under that name is another question. */
	for (size_t i = 0; i < s->nhits; i++)
		kept[i] = module_exports(s, exported, s->hit[i].module);
	/* And the library whose variable is meant may be still to come. */
	if (n || (!s->module && is_starting(s)))
		keep_hits(s, kept);
}
