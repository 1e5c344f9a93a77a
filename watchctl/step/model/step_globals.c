#include "watchctl/step/model/step_globals.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/symbols/data_symbols.h"

/* The symbols of a file, which stay the same wherever it is loaded. */
struct globals_module {
	char *path;
	uint8_t build_id[BUILD_ID_MAX];
	uint8_t build_id_len;
	struct data_symbol *symbol;
	size_t nsymbols;
};

static void module_free(struct globals_module *m)
{
	free(m->path);
	data_symbols_free(m->symbol, m->nsymbols);
	*m = (struct globals_module){ 0 };
}

static const struct globals_module *find_module(const struct step_globals *g, const struct module *m)
{
	for (size_t i = 0; i < g->nmodules; i++) {
		const struct globals_module *have = &g->module[i];

		if (!strcmp(have->path, m->path) && have->build_id_len == m->build_id_len &&
		    !memcmp(have->build_id, m->build_id, m->build_id_len))
			return have;
	}
	return NULL;
}

static struct wc_error *read_module(struct step_globals *g, const struct module *m,
				    const struct globals_module **ret)
{
	struct globals_module add = { .path = strdup(m->path), .build_id_len = m->build_id_len };
	struct wc_error *err;

	memcpy(add.build_id, m->build_id, m->build_id_len);
	err = add.path ? data_symbols_read(m, &add.symbol, &add.nsymbols) : &wc_enomem;
	if (!err && !vec_push(g->module, g->nmodules, g->modules_cap, add))
		err = &wc_enomem;
	if (err)
		module_free(&add);
	else
		*ret = &g->module[g->nmodules - 1];
	return err;
}

static struct wc_error *add_module(struct step_globals *g, const struct module *m)
{
	const struct globals_module *of = find_module(g, m);
	struct wc_error *err = of ? NULL : read_module(g, m, &of);

	for (size_t i = 0; !err && i < of->nsymbols; i++) {
		const struct data_symbol *symbol = &of->symbol[i];
		struct step_global add = { symbol->addr + m->bias, symbol->addr + symbol->size + m->bias,
					   m->start, symbol->name };

		if (!vec_push(g->v, g->n, g->cap, add))
			err = &wc_enomem;
	}
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

	g->n = g->left_out = 0;
	g->left_out_bytes = 0;
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
	for (size_t i = 0; i < g->nmodules; i++)
		module_free(&g->module[i]);
	free(g->module);
	free(g->v);
	*g = (struct step_globals){ 0 };
}
