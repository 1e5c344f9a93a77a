/* Part of code_name: all the code of a function. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/locate/code_name.h"
#include "watchctl/code/locate/code_name_dwarf.h"
#include "watchctl/code/locate/code_name_find.h"
#include "watchctl/code/locate/code_name_indirect.h"
#include "watchctl/code/locate/code_name_parse.h"

struct ranges {
	struct code_range *v;
	size_t n, cap;
	uint64_t bias; /* of the module at hand */
};

static void ranges_deinit(struct ranges *r)
{
	free(r->v);
}

/* Fits the shape of code_die_ranges(). */
static bool add_range(void *ctx, uint64_t start, uint64_t end)
{
	struct ranges *r = ctx;

	return vec_push(r->v, r->n, r->cap, (struct code_range){ start + r->bias, end + r->bias });
}

/* What the symbol that begins at @vaddr covers. */
static bool add_symbol_range(struct ranges *r, struct locate_index *x, uint64_t vaddr)
{
	struct symbols *table = locate_index_symbols(x);
	uint64_t start, end;

	if (!table)
		return false;
	return !symbols_find(table, vaddr, false, &start, &end) || add_range(r, vaddr, end);
}

struct implementations {
	struct ranges *r;
	struct locate_index *index;
};

static bool add_implementation(void *ctx, const struct symbol *implementation)
{
	struct implementations *i = ctx;

	return add_symbol_range(i->r, i->index, implementation->addr);
}

/* The code of an indirect function is what it may choose, not what chooses. */
static bool add_indirect(struct ranges *r, const struct hit *h)
{
	struct implementations i = { r, h->index };
	struct symbols *table = locate_index_symbols(h->index);

	r->bias = h->module->bias;
	return table && code_indirect_each(table, h->name, add_implementation, &i);
}

/* Adds what debug information knows of the functions in @m, inlined copies included, that fit as well as the
 * hits. */
static bool add_dies(struct search *s, struct ranges *r, const struct module *m, struct locate_index *x,
		     enum name_fit best)
{
	uint64_t *entry = calloc(s->nhits + 1, sizeof(*entry));
	scoped(code_dies_deinit) struct code_dies dies = { 0 };
	size_t nentries = 0;
	bool ok = entry != NULL;

	for (size_t i = 0; ok && i < s->nhits; i++)
		if (s->hit[i].module == m && !s->hit[i].is_indirect && s->hit[i].part != HIT_PART)
			entry[nentries++] = s->hit[i].addr - m->bias;
	r->bias = m->bias;
	ok = ok && code_dies_find(x, s->name, entry, nentries, true, &dies);
	for (size_t i = 0; ok && i < dies.n; i++) {
		struct code_die *d = &dies.v[i];

		if (d->fit >= best && (!s->source || locate_is_from(x, &d->die, d->unit, s->source)))
			ok = code_die_ranges(d, add_range, r);
	}
	free(entry);
	return ok;
}

static bool add_hits(struct search *s, struct ranges *r)
{
	bool ok = true;

	for (size_t i = 0; ok && i < s->nhits; i++) {
		const struct hit *h = &s->hit[i];

		r->bias = h->module->bias;
		if (h->is_indirect)
			ok = add_indirect(r, h);
		else
			ok = add_symbol_range(r, h->index, h->addr - h->module->bias);
	}
	return ok;
}

static struct wc_error *collect(struct search *s, struct ranges *r)
{
	enum name_fit best = s->nhits ? s->hit[0].fit : FIT_SUFFIX;

	if (!add_hits(s, r))
		return &wc_enomem;
	for (size_t i = 0; i < s->modules->n; i++) {
		const struct module *m = &s->modules->v[i];
		struct locate_index *x;

		if (s->module && !module_is_called(s->modules, m, s->module))
			continue;
		x = locator_index(s->locator, m);
		if (!x || !add_dies(s, r, m, x, best))
			return &wc_enomem;
	}
	return NULL;
}

static int range_cmp(const void *a, const void *b)
{
	const struct code_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static void code_name_range_merge(struct ranges *r)
{
	size_t kept = 0;

	if (r->n)
		qsort(r->v, r->n, sizeof(*r->v), range_cmp);
	for (size_t i = 0; i < r->n; i++) {
		if (kept && r->v[i].start <= r->v[kept - 1].end) {
			if (r->v[i].end > r->v[kept - 1].end)
				r->v[kept - 1].end = r->v[i].end;
		} else {
			r->v[kept++] = r->v[i];
		}
	}
	r->n = kept;
}

static struct wc_error *wants_function(const char *text)
{
	return wc_error_new(
		WC_EUSAGE,
		"'%s' is a single place in the code. The name of a function is needed here, because all of its code "
		"counts.",
		text);
}

static struct wc_error *find_ranges(struct search *s, const struct code_expr *e, struct ranges *r,
				    bool *missing_module)
{
	struct wc_error *err;

	s->name = e->name;
	err = code_name_find_all(s);
	if (!err)
		err = collect(s, r);
	if (err || r->n)
		return err;
	for (size_t i = 0; i < s->nhits; i++)
		if (s->hit[i].is_indirect)
			return code_indirect_error(s, &s->hit[i], NULL);
	return search_not_found(s, e->nprefixes ? e->prefix[e->nprefixes - 1] : NULL, missing_module);
}

static struct wc_error *ranges_of(struct locator *l, const char *function, const struct module_list *modules,
				  struct code_range **ret, size_t *n, bool *missing_module)
{
	scoped(code_expr_deinit) struct code_expr e = { 0 };
	scoped(search_deinit) struct search s = { .locator = l, .modules = modules, .functions = true };
	scoped(ranges_deinit) struct ranges r = { 0 };
	struct wc_error *err;

	if (missing_module)
		*missing_module = false;
	err = code_name_parse(function, &e);
	if (err)
		return err;
	if (e.is_raw || !e.name || e.has_offset)
		return wants_function(function);
	search_set_prefixes(&s, e.prefix, e.nprefixes);
	err = find_ranges(&s, &e, &r, missing_module);
	if (err)
		return err;
	code_name_range_merge(&r);
	*ret = take_ptr(r.v);
	*n = r.n;
	return NULL;
}

struct range_question {
	struct locator *l;
	const char *function;
	const struct module_list *modules;
	struct code_range **ret;
	size_t *n;
	bool *missing_module;
	struct wc_error *err;
};

static void run_question(void *ctx)
{
	struct range_question *q = ctx;

	q->err = ranges_of(q->l, q->function, q->modules, q->ret, q->n, q->missing_module);
}

struct wc_error *code_ranges(struct locator *l, const char *function, const struct module_list *modules,
			     struct code_range **ret, size_t *n, bool *missing_module)
{
	struct range_question q = { l, function, modules, ret, n, missing_module, NULL };
	struct wc_error *err = locator_guarded(l, run_question, &q);

	return err ? err : q.err;
}
