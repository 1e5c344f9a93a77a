/* Part of code_name_find: what is said of a function that has no code of its own, because it was inlined. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/dwarf/dwarf_unit.h"
#include "watchctl/code/locate/code_name_dwarf.h"
#include "watchctl/code/locate/code_name_find.h"

#define LISTED_MAX 8

struct listing {
	FILE *f;
	size_t n;
	const struct module *module; /* of the first one */
};

static void list_call(struct listing *l, const struct module *m, struct locate_index *x, struct code_die *d)
{
	Dwarf_Die *cu = locate_index_unit(x, d->unit);
	scoped(freep) char *caller = code_die_name(&d->function);
	uint64_t at = code_die_entry(d);
	Dwarf_Word file, line;
	const char *path = NULL;

	if (!at || l->n++ >= LISTED_MAX)
		return;
	fprintf(l->f, "\n  0x%" PRIx64 "  ", at + m->bias);
	if (dwarf_die_number(&d->die, DW_AT_call_file, &file))
		path = dwarf_unit_file(cu, file);
	if (path && dwarf_die_number(&d->die, DW_AT_call_line, &line))
		fprintf(l->f, "%s:%" PRIu64 " ", dwarf_unit_short_path(cu, path), line);
	fprintf(l->f, "in %s", caller ? caller : "?");
}

static bool list_module(struct search *s, const struct module *m, struct locate_index *x, struct listing *l)
{
	scoped(code_dies_deinit) struct code_dies dies = { 0 };
	enum name_fit best = FIT_NONE;

	if (!code_dies_find(x, s->name, NULL, 0, true, &dies))
		return false;
	for (size_t i = 0; i < dies.n; i++)
		best = dies.v[i].fit > best ? dies.v[i].fit : best;
	for (size_t i = 0; i < dies.n; i++) {
		struct code_die *d = &dies.v[i];

		if (d->fit != best || (s->source && !locate_is_from(x, &d->die, d->unit, s->source)))
			continue;
		if (!l->n)
			l->module = m;
		list_call(l, m, x, d);
	}
	return true;
}

struct wc_error *code_name_inlined_error(struct search *s)
{
	scoped(freep) char *list = NULL;
	size_t len;
	struct listing l = { .f = open_memstream(&list, &len) };
	bool ok = l.f != NULL;

	for (size_t i = 0; i < s->modules->n && ok && !l.n; i++) {
		const struct module *m = &s->modules->v[i];
		struct locate_index *x;

		if (s->module && !module_is_called(s->modules, m, s->module))
			continue;
		x = locator_index(s->locator, m);
		ok = x && list_module(s, m, x, &l);
	}
	if (ok && l.n > LISTED_MAX)
		fprintf(l.f, "\n  and %zu more", l.n - LISTED_MAX);
	if (l.f)
		fclose(l.f);
	if (!ok)
		return &wc_enomem;
	if (!l.n)
		return NULL;
	return wc_error_new(
		WC_ENAME,
		"'%s' has no code of its own in %s: it was inlined at every call. Give the address of one "
		"of these copies, or the name of the function that contains it:%s",
		s->name, basename(l.module->path), list);
}
