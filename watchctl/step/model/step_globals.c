#include "watchctl/step/model/step_globals.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/symbols/data_symbols.h"

static struct wc_error *add_module(struct step_globals *g, const struct module *m)
{
	struct data_symbol *symbol = NULL;
	size_t n = 0, i;
	struct wc_error *err = data_symbols_read(m, &symbol, &n);

	for (i = 0; !err && i < n; i++) {
		struct step_global add = { symbol[i].addr + m->bias,
					   symbol[i].addr + symbol[i].size + m->bias,
					   strings_keep(&g->names, symbol[i].name) };

		if (!add.name || !vec_push(g->v, g->n, g->cap, add))
			err = &wc_enomem;
	}
	data_symbols_free(symbol, n);
	return err;
}

static uint64_t size_of(const struct step_global *g)
{
	return g->end - g->start;
}

static int by_start(const void *a, const void *b)
{
	const struct step_global *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* Of equal size by address, so that the same ones are chosen in every run. */
static int by_size(const void *a, const void *b)
{
	const uint64_t x = size_of(a), y = size_of(b);

	return x != y ? (x < y ? -1 : 1) : by_start(a, b);
}

static void keep_smallest(struct step_globals *g, uint64_t max)
{
	uint64_t sum = 0;
	size_t kept = 0;

	while (kept < g->n && size_of(&g->v[kept]) <= max - sum)
		sum += size_of(&g->v[kept++]);
	g->left_out = g->n - kept;
	for (size_t i = kept; i < g->n; i++)
		g->left_out_bytes += size_of(&g->v[i]);
	g->n = kept;
}

struct wc_error *step_globals_read(struct step_globals *g, const struct module_list *modules,
				   const struct step_selection *selection, uint64_t max)
{
	struct wc_error *err = NULL;
	size_t i;

	step_globals_deinit(g);
	for (i = 0; !err && i < modules->n; i++)
		if (step_selection_records(selection, modules->v[i].path))
			err = add_module(g, &modules->v[i]);
	if (err || !g->n)
		return err;
	qsort(g->v, g->n, sizeof(*g->v), by_size);
	keep_smallest(g, max);
	qsort(g->v, g->n, sizeof(*g->v), by_start);
	return NULL;
}

const struct step_global *step_globals_find(const struct step_globals *g, uint64_t address)
{
	const size_t i = BISECT(g->n, k, g->v[k].end <= address);

	return i < g->n && address >= g->v[i].start ? &g->v[i] : NULL;
}

void step_globals_deinit(struct step_globals *g)
{
	strings_deinit(&g->names);
	free(g->v);
	*g = (struct step_globals){ 0 };
}
