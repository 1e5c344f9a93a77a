#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/dwarf_language.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/lookup/locate_index_impl.h"

struct locate_index *locate_index_new(const struct module *m)
{
	struct locate_index *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->file = elffile_new(m);
	if (!x->file) {
		free(x);
		return NULL;
	}
	return x;
}

void locate_index_free(struct locate_index *x)
{
	if (!x)
		return;
	for (size_t i = 0; i < x->nstrings; i++)
		free(x->strings[i]);
	free(x->strings);
	map64_deinit(&x->by_name);
	map64_deinit(&x->scopes);
	map64_deinit(&x->outer);
	map64_deinit_values(&x->complete, free);
	free(x->v);
	free(x->unit);
	symbols_free(x->symbols);
	elffile_free(x->file);
	free(x);
}

struct elffile *locate_index_file(struct locate_index *x)
{
	return x->file;
}

Dwarf *locate_index_dwarf(struct locate_index *x, uint64_t *bias)
{
	return elffile_dwarf(x->file, bias);
}

uint64_t locate_index_bias(struct locate_index *x)
{
	uint64_t bias;

	locate_index_dwarf(x, &bias);
	return bias;
}

struct symbols *locate_index_symbols(struct locate_index *x)
{
	if (!x->symbols)
		x->symbols = symbols_new(x->file);
	return x->symbols;
}

void locate_index_open_units(struct locate_index *x)
{
	struct dwarf_unit_iter it = { 0 };
	Dwarf_Die cu;

	if (x->opened)
		return;
	x->opened = true;
	x->dwarf = elffile_dwarf(x->file, &x->bias);
	while (x->dwarf && dwarf_unit_next(x->dwarf, &it, &cu)) {
		const struct dwarf_language *l = dwarf_die_language(&cu);

		x->hides_locals |= l && dwarf_family_ignores_case(l->family);
		if (!vec_push(x->unit, x->nunits, x->unit_cap, cu)) {
			x->no_memory = true;
			return;
		}
	}
}

bool locate_index_hides_locals(struct locate_index *x)
{
	locate_index_open_units(x);
	return x->hides_locals;
}

bool locate_index_has_dwarf(struct locate_index *x)
{
	locate_index_open_units(x);
	return x->nunits > 0;
}

char *locate_index_missing(struct locate_index *x)
{
	const char *split, *name = basename(elffile_path(x->file));
	scoped(freep) char *package = NULL;
	char *text;
	int n;

	locate_index_open_units(x);
	split = x->dwarf ? dwarf_missing_split(x->dwarf) : NULL;
	if (!split)
		return NULL;
	package = elffile_package(x->file);
	n = package ? asprintf(
			      &text,
			      "The debug information of %s is in the package %s, which libdw %s cannot read: keep "
			      "the .dwo files, or build without -gsplit-dwarf.",
			      name, basename(package), dwfl_version(NULL))
		    : asprintf(
			      &text,
			      "The debug information of %s is split, and the file %s with a part of it is missing.",
			      name, split);
	return n < 0 ? NULL : text;
}

Dwarf_Die *locate_index_unit(struct locate_index *x, uint32_t unit)
{
	return &x->unit[unit];
}

size_t locate_index_nunits(struct locate_index *x)
{
	locate_index_open_units(x);
	return x->nunits;
}

bool locate_index_lacks_memory(const struct locate_index *x)
{
	return x->no_memory;
}
