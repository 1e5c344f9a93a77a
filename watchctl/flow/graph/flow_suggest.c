/*
 * flow_suggest - the waits of each unit by call and kind of object, and the messages between them. The edges into a unit are linked from
 * the last one back, and a wait stands behind what ended it: what is met between two waits came between their ends.
 *
 * A lock of many threads looks alike: they wake each other. There each of those that a thread waits for waits for many itself, while
 * clients wait for their server alone.
 */
#include "watchctl/flow/graph/flow_suggest.h"

#include <stdlib.h>
#include <sys/syscall.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/flow/graph/flow_graph_impl.h"
#include "watchctl/flow/graph/flow_waits.h"
#include "watchctl/flow/rules/flow_rules.h"

#define PLACES_OF_UNIT 16u /* different calls and kinds; more are not looked at */

struct place {
	uint16_t call;
	uint8_t kind;
};

/* One thread brought the other one on while that waited so. */
struct pair {
	uint32_t suggestion, origin;
};

struct suggesting {
	struct flow_graph *g;
	struct flow_suggestions *found;
	struct pair *pair;
	size_t npairs, pairs_cap;
	struct map64 seen;  /* thread, of the unit that is looked at -> that it was met */
	struct map64 index; /* thread and place -> suggestion + 1 */
	uint32_t *units;    /* of each thread */
};

static uint64_t place_key(uint32_t thread, struct place p)
{
	return (uint64_t)thread << 32 | (uint64_t)p.call << 8 | p.kind;
}

/* Room in the other end, a child, a lock of a file: these are needed for the work at hand. */
static bool is_never_idle(int call)
{
	return flow_call_sends(call) || flow_call_waits_child(call) || call == SYS_flock ||
	       call == SYS_fcntl || call == SYS_connect;
}

static bool is_wait(const struct flow_edge *e)
{
	return e->kind == FLOW_EDGE_WAIT_FOR && e->has_call && !is_never_idle(e->call) &&
	       !(e->flags & (FLOW_EDGE_FAULT | FLOW_EDGE_OWNER | FLOW_EDGE_BLOCKED));
}

static bool is_at(const struct flow_edge *e, struct place p)
{
	return is_wait(e) && e->call == p.call && e->object_kind == p.kind;
}

static bool is_message(const struct flow_graph *g, const struct flow_edge *e)
{
	const bool fits = e->kind == FLOW_EDGE_WAKEUP || e->kind == FLOW_EDGE_MESSAGE ||
			  e->kind == FLOW_EDGE_LOCK || e->kind == FLOW_EDGE_DATA;

	return fits && !(e->flags & (FLOW_EDGE_OWN | FLOW_EDGE_BLOCKED)) && e->from != FLOW_NONE &&
	       g->node[e->from].thread != g->node[e->to].thread;
}

static bool keep_origin(struct suggesting *x, uint32_t origin, struct flow_suggestion *s)
{
	const struct pair p = { (uint32_t)x->found->n, origin };

	if (map64_get(&x->seen, origin))
		return true;
	s->origins++;
	return map64_put(&x->seen, origin, x) && vec_push(x->pair, x->npairs, x->pairs_cap, p);
}

/* False: no memory. */
static bool count(struct suggesting *x, struct place p, struct flow_suggestion *s)
{
	const struct flow_graph *g = x->g;
	bool serves = false, ok = true;

	map64_deinit(&x->seen);
	for (uint32_t i = g->node[s->node].last_in; i != FLOW_NONE && ok; i = g->edge[i].next_in) {
		const struct flow_edge *e = &g->edge[i];

		if (is_at(e, p)) {
			s->waits++;
			serves = true;
		} else if (is_message(g, e)) {
			s->messages++;
			s->served += serves;
			serves = false;
			ok = keep_origin(x, g->node[e->from].thread, s);
		}
	}
	return ok;
}

static bool has_bounds(const struct suggesting *x, const struct flow_suggestion *s)
{
	return s->served >= FLOW_SUGGEST_WAITS && s->origins >= FLOW_SUGGEST_ORIGINS &&
	       s->served >= x->units[s->thread];
}

/* Another unit of the thread may have said the same, with less. */
static bool keep(struct suggesting *x, struct place p, const struct flow_suggestion *s, size_t pairs)
{
	const uint64_t key = place_key(s->thread, p);
	const size_t i = (size_t)(uintptr_t)map64_get(&x->index, key);

	if (i) {
		x->npairs = pairs;
		if (x->found->of[i - 1].served < s->served)
			x->found->of[i - 1] = *s;
		return true;
	}
	return vec_push(x->found->of, x->found->n, x->found->cap, *s) &&
	       map64_put(&x->index, key, (void *)(uintptr_t)x->found->n);
}

static bool try_place(struct suggesting *x, uint32_t node, struct place p)
{
	const struct flow_node *n = &x->g->node[node];
	const struct flow_profile *profile = flow_graph_profile(x->g, n->thread, n->end_ns);
	const size_t pairs = x->npairs;
	struct flow_suggestion s = { .unit_ns = n->end_ns - n->begin_ns,
				     .thread = n->thread,
				     .leader = flow_graph_leader(x->g, n->thread, n->end_ns),
				     .node = node,
				     .units = x->units[n->thread],
				     .call = p.call,
				     .object_kind = p.kind };

	if (!profile || s.leader == FLOW_NO_THREAD)
		return false;
	if (flow_rules_names_wait(profile, p.call, p.kind))
		return true;
	if (!count(x, p, &s))
		return false;
	if (has_bounds(x, &s))
		return keep(x, p, &s, pairs);
	x->npairs = pairs;
	return true;
}

/* The places where the unit waits, each once. */
static size_t places_of(const struct flow_graph *g, uint32_t node, struct place *ret)
{
	size_t n = 0, k;

	for (uint32_t i = g->node[node].last_in; i != FLOW_NONE; i = g->edge[i].next_in) {
		const struct flow_edge *e = &g->edge[i];

		if (!is_wait(e))
			continue;
		for (k = 0; k < n && !is_at(e, ret[k]); k++)
			;
		if (k == n && n < PLACES_OF_UNIT)
			ret[n++] = (struct place){ e->call, e->object_kind };
	}
	return n;
}

static bool try_unit(struct suggesting *x, uint32_t node)
{
	struct place place[PLACES_OF_UNIT];
	const size_t n = places_of(x->g, node, place);

	for (size_t i = 0; i < n; i++)
		if (!try_place(x, node, place[i]))
			return false;
	return true;
}

/* @others: of those that a suggestion waits for, how many more there are that do not wait so for many themselves than do. */
static void drop_locks(struct suggesting *x, int32_t *others)
{
	struct flow_suggestions *f = x->found;
	size_t kept = 0;

	for (size_t i = 0; i < x->npairs; i++) {
		const struct flow_suggestion *s = &f->of[x->pair[i].suggestion];
		const struct place p = { s->call, s->object_kind };

		others[x->pair[i].suggestion] +=
			map64_get(&x->index, place_key(x->pair[i].origin, p)) ? -1 : 1;
	}
	for (size_t i = 0; i < f->n; i++)
		if (others[i] > 0)
			f->of[kept++] = f->of[i];
	f->n = kept;
}

static int by_messages(const void *a, const void *b)
{
	const struct flow_suggestion *x = a, *y = b;

	if (x->messages != y->messages)
		return x->messages > y->messages ? -1 : 1;
	return (x->node > y->node) - (x->node < y->node);
}

static struct wc_error *find(struct suggesting *x)
{
	scoped(freep) int32_t *others = NULL;

	for (size_t i = 0; i < x->g->nnodes; i++)
		x->units[x->g->node[i].thread]++;
	for (uint32_t i = 0; i < x->g->nnodes; i++)
		if (!try_unit(x, i))
			return &wc_enomem;
	others = calloc(x->found->n + 1, sizeof(*others));
	if (!others)
		return &wc_enomem;
	drop_locks(x, others);
	if (x->found->n)
		qsort(x->found->of, x->found->n, sizeof(*x->found->of), by_messages);
	return NULL;
}

struct wc_error *flow_suggest(struct flow_graph *g, struct flow_suggestions *ret)
{
	struct suggesting x = { .g = g, .found = ret, .units = calloc(g->nlive + 1, sizeof(uint32_t)) };
	struct wc_error *err = x.units ? find(&x) : &wc_enomem;

	free(x.units);
	free(x.pair);
	map64_deinit(&x.seen);
	map64_deinit(&x.index);
	return err;
}

void flow_suggestions_deinit(struct flow_suggestions *s)
{
	free(s->of);
	*s = (struct flow_suggestions){ 0 };
}
