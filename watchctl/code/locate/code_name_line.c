/*
 * A line has code in every function that it is part of: its own, and all into which that was inlined. In each
 * of them the lowest address where a statement begins is where the line begins.
 */
#include "watchctl/code/locate/code_name_line.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/dwarf_names.h"
#include "watchctl/code/dwarf/dwarf_unit.h"

#define LISTED_MAX 10

struct line_place {
	const struct module *module;
	uint64_t addr;	/* runtime */
	const void *id; /* of the function or the inlined call around it; NULL: unknown */
	char *text;	/* "in g, inlined into main"; owned */
};

struct line_search {
	struct search *s;
	unsigned int line;
	bool source_seen;
	unsigned int below, above; /* the nearest lines with code; 0: none */
	struct line_place *v;
	size_t n, cap;
};

static void line_search_deinit(struct line_search *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].text);
	free(l->v);
}

static bool unit_has_source(Dwarf_Die *cu, const char *source)
{
	Dwarf_Files *files;
	size_t n;

	if (dwarf_getsrcfiles(cu, &files, &n) != 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		const char *path = dwarf_filesrc(files, i, NULL, NULL);

		if (path && locate_path_fit(path, source))
			return true;
	}
	return false;
}

static char *place_text(const struct dwarf_place *p)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	if (!f)
		return NULL;
	for (size_t i = 0; i < p->nframes; i++)
		fprintf(f, "%s%s", i ? ", inlined into " : "in ",
			p->frame[i].function ? p->frame[i].function : "?");
	fclose(f);
	return text;
}

/* Takes a place, unless a lower one of the same function is known. False: no memory. */
static bool add_place(struct line_search *l, const struct module *m, struct dwarf_names *names,
		      uint64_t vaddr)
{
	struct dwarf_place p = { 0 };
	bool known = dwarf_names_lookup(names, vaddr, &p);
	struct line_place place = { m, vaddr + m->bias, known ? p.frame[0].id : NULL, NULL };

	place.text = known ? place_text(&p) : strdup("in an unknown function");
	dwarf_place_deinit(&p);
	if (!place.text)
		return false;
	for (size_t i = 0; i < l->n; i++) {
		struct line_place *v = &l->v[i];

		if (v->module != m || (v->id != place.id && v->addr != place.addr))
			continue;
		if (place.addr < v->addr)
			v->addr = place.addr;
		free(place.text);
		return true;
	}
	if (vec_push(l->v, l->n, l->cap, place))
		return true;
	free(place.text);
	return false;
}

static void note_near(struct line_search *l, unsigned int line)
{
	if (line < l->line && line > l->below)
		l->below = line;
	if (line > l->line && (!l->above || line < l->above))
		l->above = line;
}

/* A row of the line table that begins a statement of the source file; 0: it does not. */
static unsigned int row_line(const struct line_search *l, Dwarf_Line *row, Dwarf_Addr *addr)
{
	bool statement = false, end = false;
	const char *path;
	int line;

	if (dwarf_linebeginstatement(row, &statement) != 0 || !statement ||
	    dwarf_lineendsequence(row, &end) != 0 || end || dwarf_lineno(row, &line) != 0 || line <= 0 ||
	    dwarf_lineaddr(row, addr) != 0 || !*addr)
		return 0;
	path = dwarf_linesrc(row, NULL, NULL);
	return path && locate_path_fit(path, l->s->source) ? (unsigned int)line : 0;
}

static bool search_unit(struct line_search *l, const struct module *m, struct dwarf_names *names,
			Dwarf_Die *cu, uint64_t bias)
{
	Dwarf_Lines *rows;
	size_t n;

	if (!unit_has_source(cu, l->s->source) || dwarf_getsrclines(cu, &rows, &n) != 0)
		return true;
	l->source_seen = true;
	for (size_t i = 0; i < n; i++) {
		Dwarf_Line *row = dwarf_onesrcline(rows, i);
		Dwarf_Addr addr = 0;
		unsigned int line = row ? row_line(l, row, &addr) : 0;

		if (line == l->line && !add_place(l, m, names, addr + bias))
			return false;
		if (line)
			note_near(l, line);
	}
	return true;
}

static bool search_module(struct line_search *l, const struct module *m, struct locate_index *x)
{
	struct dwarf_names *names = dwarf_names_new(locate_index_file(x));
	size_t n = locate_index_nunits(x);
	bool ok = names != NULL;
	uint64_t bias;

	if (locate_index_dwarf(x, &bias))
		for (uint32_t i = 0; i < n && ok; i++)
			ok = search_unit(l, m, names, locate_index_unit(x, i), bias);
	dwarf_names_free(names);
	return ok;
}

/* The program first; what it has, libraries need not be asked for. */
static struct wc_error *search_modules(struct line_search *l)
{
	const struct module *exe = search_main_module(l->s->modules);

	for (int others = 0; others < 2 && !l->n; others++) {
		for (size_t i = 0; i < l->s->modules->n; i++) {
			const struct module *m = &l->s->modules->v[i];
			struct locate_index *x;

			if ((m == exe) == others ||
			    (l->s->module && !module_is_called(l->s->modules, m, l->s->module)))
				continue;
			x = locator_index(l->s->locator, m);
			if (!x || !search_module(l, m, x))
				return &wc_enomem;
		}
	}
	return NULL;
}

static struct wc_error *no_code(const struct line_search *l)
{
	const char *file = l->s->source;

	if (l->below && l->above)
		return wc_error_new(
			WC_ENAME,
			"Line %u of %s has no code of its own. The nearest lines that have are %u and %u.",
			l->line, file, l->below, l->above);
	if (l->below || l->above)
		return wc_error_new(WC_ENAME,
				    "Line %u of %s has no code of its own. The nearest line that has is %u.",
				    l->line, file, l->below ? l->below : l->above);
	return wc_error_new(WC_ENAME, "The loaded modules contain no code from %s.", file);
}

static int place_cmp(const void *a, const void *b)
{
	const struct line_place *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static struct wc_error *several(struct line_search *l)
{
	scoped(freep) char *list = NULL;
	size_t len;
	FILE *f = open_memstream(&list, &len);

	if (!f)
		return &wc_enomem;
	qsort(l->v, l->n, sizeof(*l->v), place_cmp);
	for (size_t i = 0; i < l->n && i < LISTED_MAX; i++)
		fprintf(f, "\n  0x%" PRIx64 "  %s", l->v[i].addr, l->v[i].text);
	if (l->n > LISTED_MAX)
		fprintf(f, "\n  and %zu more", l->n - LISTED_MAX);
	fclose(f);
	return wc_error_new(
		WC_ENAME,
		"Line %u of %s is at %zu places in the code, because it was inlined or compiled more than once. Give "
		"the address of the one to watch:%s",
		l->line, l->s->source, l->n, list);
}

struct wc_error *code_name_line(struct search *s, unsigned int line, const struct module **module,
				uint64_t *ret, bool *missing_module)
{
	scoped(line_search_deinit) struct line_search l = { .s = s, .line = line };
	struct wc_error *err = search_modules(&l);

	if (err)
		return err;
	if (!l.n && !l.source_seen) {
		err = search_unknown_source(s, missing_module);
		return err ? err : no_code(&l);
	}
	if (!l.n)
		return no_code(&l);
	if (l.n > 1)
		return several(&l);
	*module = l.v[0].module;
	*ret = l.v[0].addr;
	return NULL;
}
