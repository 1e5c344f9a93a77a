/*
 * Symbols say where functions begin, also the copies and parts that a compiler made; debug information adds
 * which source files they are from, and those without a symbol.
 */
#include "watchctl/code/locate/code_name_find.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/locate/code_name_dwarf.h"
#include "watchctl/code/symbols/code_name_match.h"

static void add_symbols(struct search *s, const struct module *m, struct locate_index *x)
{
	struct symbols *table = locate_index_symbols(x);
	const struct symbol *v;
	size_t n, len;
	const char *word = code_name_word(s->name, &len);

	if (!table) {
		s->no_memory = true;
		return;
	}
	v = symbols_all(table, &n);
	for (size_t i = 0; i < n && !s->no_memory; i++) {
		enum hit_part part;
		enum name_fit fit;

		if (v[i].use != SYMBOL_CODE || (len && !memmem(v[i].name, strlen(v[i].name), word, len)))
			continue;
		fit = code_name_fit(v[i].name, s->name, &part);
		if (fit)
			search_add_hit(s, (struct hit){ .module = m,
							.index = x,
							.addr = v[i].addr + m->bias,
							.size = 1,
							.is_function = true,
							.is_indirect = v[i].indirect,
							.part = part,
							.fit = fit,
							.name = code_name_shown(v[i].name) });
	}
}

/* The hits so far that are in @x, as addresses of the file. NULL: none, or no memory. */
static uint64_t *entries_in(struct search *s, const struct module *m, size_t *n)
{
	uint64_t *v = calloc(s->nhits + 1, sizeof(*v));

	*n = 0;
	for (size_t i = 0; v && i < s->nhits; i++)
		if (s->hit[i].module == m && !s->hit[i].is_indirect && s->hit[i].part != HIT_PART)
			v[(*n)++] = s->hit[i].addr - m->bias;
	s->no_memory |= !v;
	return v;
}

/* Names @h by the symbol that begins where it does: which of its copies it is. */
static void name_by_symbol(struct search *s, struct hit *h)
{
	struct symbols *table = locate_index_symbols(h->index);
	uint64_t at = h->addr - h->module->bias, start, end;
	const struct symbol *sym = table ? symbols_find(table, at, false, &start, &end) : NULL;
	enum hit_part part;
	char *name;

	if (!sym || start != at || !code_name_fit(sym->name, s->name, &part))
		return;
	name = code_name_shown(sym->name);
	if (!name)
		return;
	free(h->name);
	h->name = name;
	h->part = part;
}

/* An alias is as good as the symbol that named it. */
static enum name_fit fit_at(const struct search *s, uint64_t addr, enum name_fit fit)
{
	for (size_t i = 0; i < s->nhits; i++)
		if (s->hit[i].addr == addr)
			return s->hit[i].fit;
	return fit;
}

static void add_die(struct search *s, const struct module *m, struct locate_index *x, struct code_die *d)
{
	uint64_t at = code_die_entry(d);
	struct hit h = { .module = m,
			 .index = x,
			 .addr = at + m->bias,
			 .size = 1,
			 .is_function = true,
			 .has_die = true,
			 .die = d->die,
			 .unit = d->unit };

	if (!at || (s->source && !locate_is_from(x, &d->die, d->unit, s->source)))
		return;
	h.fit = fit_at(s, h.addr, d->fit);
	h.name = code_die_name(&d->die);
	if (!h.name)
		return;
	name_by_symbol(s, &h);
	search_add_hit(s, h);
}

static void add_dies(struct search *s, const struct module *m, struct locate_index *x)
{
	size_t n;
	scoped(freep) uint64_t *entry = entries_in(s, m, &n);
	scoped(code_dies_deinit) struct code_dies dies = { 0 };

	if (!entry || !code_dies_find(x, s->name, entry, n, false, &dies)) {
		s->no_memory = true;
		return;
	}
	for (size_t i = 0; i < dies.n; i++)
		add_die(s, m, x, &dies.v[i]);
}

static void stage(struct search *s, const struct module *m, struct locate_index *x)
{
	/* Symbols do not know their source files. */
	if (!s->source)
		add_symbols(s, m, x);
	if (!s->no_memory)
		add_dies(s, m, x);
}

/* Where there are whole functions, only they are left; else where there are clones, only these. */
static void keep_best_part(struct search *s)
{
	enum hit_part best = HIT_PART;
	size_t kept = 0;

	for (size_t i = 0; i < s->nhits; i++)
		if (s->hit[i].part < best)
			best = s->hit[i].part;
	for (size_t i = 0; i < s->nhits; i++) {
		if (s->hit[i].part == best) {
			s->hit[kept++] = s->hit[i];
		} else {
			s->nclones += s->hit[i].part == HIT_CLONE;
			free(s->hit[i].name);
		}
	}
	s->nhits = kept;
}

struct wc_error *code_name_find(struct search *s)
{
	struct wc_error *err;

	s->functions = true;
	err = search_run_stage(s, stage, false);
	if (!err && !s->nhits)
		err = search_run_stage(s, stage, true);
	if (!err)
		keep_best_part(s);
	return err;
}

struct wc_error *code_name_find_all(struct search *s)
{
	struct wc_error *err;

	s->functions = true;
	err = search_run_stage(s, stage, false);
	return err ? err : search_run_stage(s, stage, true);
}
