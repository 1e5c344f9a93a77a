#include "watchctl/flow/blame/compare.h"

#include <stdlib.h>

#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/flow/blame/baseline.h"

struct times {
	uint64_t *ns;
	size_t n, cap;
};

struct kind {
	struct times good, bad;
	uint64_t longest_ns;
	uint64_t unit; /* key of the unit's kind */
	uint32_t node, wait;
	bool chosen;
};

struct comparing {
	struct map64 index; /* -> index of a kind + 1 */
	struct kind *kind;
	size_t n, cap;
	const bool *chosen;
	bool is_bad, starved;
};

static uint64_t mix(uint64_t hash, uint64_t v)
{
	hash = (hash ^ v) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 29;
}

static struct kind *kind_of(struct comparing *c, uint64_t key)
{
	const struct kind fresh = { .node = FLOW_NONE, .wait = FLOW_NONE };
	const size_t i = (size_t)(uintptr_t)map64_get(&c->index, key);

	if (i)
		return &c->kind[i - 1];
	if (vec_push(c->kind, c->n, c->cap, fresh) && map64_put(&c->index, key, (void *)(uintptr_t)c->n))
		return &c->kind[c->n - 1];
	c->starved = true;
	return NULL;
}

struct taken {
	uint64_t unit, ns;
	uint32_t node, wait;
	bool chosen;
};

static void add(struct comparing *c, uint64_t key, const struct taken *x)
{
	struct kind *k = kind_of(c, key);
	struct times *t;

	if (!k)
		return;
	k->unit = x->unit;
	t = c->is_bad ? &k->bad : &k->good;
	c->starved |= !vec_push(t->ns, t->n, t->cap, x->ns);
	if (!c->is_bad)
		return;
	k->chosen |= x->chosen;
	if (k->node != FLOW_NONE && x->ns <= k->longest_ns)
		return;
	k->longest_ns = x->ns;
	k->node = x->node;
	k->wait = x->wait;
}

static uint64_t wait_key(const struct blame_log *b, uint64_t unit, const struct flow_edge *e)
{
	const uint64_t whom = e->from == FLOW_NONE ? 0 : baseline_name(b, b->node[e->from].thread);

	return mix(mix(mix(unit, 1u + e->has_call + e->call * 2u), e->object_kind), whom);
}

static void add_unit(struct comparing *c, const struct blame_log *b, uint32_t i)
{
	const struct flow_node *n = &b->node[i];
	const bool chosen = !c->is_bad || !c->chosen || c->chosen[n->thread];
	const uint64_t key =
		mix(mix(baseline_name(b, n->thread), n->has_call + n->call * 2u), n->object_kind);

	struct taken x = { key, n->end_ns - n->begin_ns, i, FLOW_NONE, chosen };

	add(c, key, &x);
	for (x.wait = n->last_in; x.wait != FLOW_NONE; x.wait = b->edge[x.wait].next_in) {
		const struct flow_edge *e = &b->edge[x.wait];

		x.ns = e->to_ns - e->from_ns;
		if (e->kind == FLOW_EDGE_WAIT_FOR)
			add(c, wait_key(b, key, e), &x);
	}
}

static int by_time(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(struct times *t)
{
	if (!t->n)
		return 0;
	qsort(t->ns, t->n, sizeof(*t->ns), by_time);
	return t->ns[t->n / 2];
}

static uint64_t growth(const struct compared *x)
{
	return x->bad_ns - x->good_ns;
}

static bool comes_before(const struct compared *x, const struct compared *y)
{
	if ((x->wait == FLOW_NONE) != (y->wait == FLOW_NONE))
		return y->wait == FLOW_NONE;
	return growth(x) > growth(y);
}

/* Keeps @ret sorted, and the first @cap. */
static void put(const struct compared *x, struct compared *ret, size_t cap, size_t *n)
{
	size_t i = *n;

	if (*n == cap && (!cap || !comes_before(x, &ret[cap - 1])))
		return;
	if (*n == cap)
		i--;
	else
		(*n)++;
	for (; i > 0 && comes_before(x, &ret[i - 1]); i--)
		ret[i] = ret[i - 1];
	ret[i] = *x;
}

static void choose(struct comparing *c, struct compared *ret, size_t cap, size_t *n)
{
	*n = 0;
	for (size_t i = 0; i < c->n; i++) {
		struct kind *k = &c->kind[i];
		struct compared x = { .node = k->node, .wait = k->wait, .good = k->good.n, .bad = k->bad.n };

		/* Waits may be new; units that are have nothing to be compared with. */
		if (!k->chosen || kind_of(c, k->unit)->good.n < COMPARE_LEAST || x.bad < COMPARE_LEAST)
			continue;
		x.good_ns = median(&k->good);
		x.bad_ns = median(&k->bad);
		if (x.bad_ns > x.good_ns)
			put(&x, ret, cap, n);
	}
}

static void add_log(struct comparing *c, const struct blame_log *b, bool is_bad)
{
	c->is_bad = is_bad;
	for (size_t i = 0; i < b->nnodes && !c->starved; i++)
		add_unit(c, b, (uint32_t)i);
}

struct wc_error *compare_find(const struct blame_log *good, const struct blame_log *bad, const bool *chosen,
			      struct compared *ret, size_t cap, size_t *n)
{
	struct comparing c = { .chosen = chosen };
	bool starved;

	add_log(&c, good, false);
	add_log(&c, bad, true);
	starved = c.starved;
	if (!starved)
		choose(&c, ret, cap, n);
	for (size_t i = 0; i < c.n; i++) {
		free(c.kind[i].good.ns);
		free(c.kind[i].bad.ns);
	}
	free(c.kind);
	map64_deinit(&c.index);
	return starved ? &wc_enomem : NULL;
}
