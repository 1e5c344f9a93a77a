#include "watchctl/flow/blame/baseline.h"

#include "watchctl/flow/graph/flow_threads.h"

#define ENDERS 32u

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "worker-12" and "worker-7" are named alike. */
static uint64_t add_name(uint64_t hash, const char *name)
{
	for (bool in_number = false; *name; name++) {
		if (!is_digit(*name) || !in_number)
			hash = (hash ^ (is_digit(*name) ? '0' : (unsigned char)*name)) * 0x100000001b3u;
		in_number = is_digit(*name);
	}
	return (hash ^ 0xff) * 0x100000001b3u;
}

static const char *thread_name(const struct blame_log *b, uint32_t thread)
{
	return flow_threads_comm(b->threads, thread, b->seen->end_ns);
}

/* That of its first thread; where that is not known, the thread's own. */
static const char *process_name(const struct blame_log *b, uint32_t thread)
{
	const int32_t pid = b->threads->thread[thread].pid;
	const uint32_t first =
		pid ? flow_threads_at(b->threads, pid, b->threads->thread[thread].begin_ns) : FLOW_NO_THREAD;

	return thread_name(b, first == FLOW_NO_THREAD ? thread : first);
}

/* Is it the first thread of its process, or one that was made? Names are often the same. */
static bool is_first(const struct blame_log *b, uint32_t thread)
{
	return b->threads->thread[thread].pid == b->threads->thread[thread].tid;
}

uint64_t baseline_name(const struct blame_log *b, uint32_t thread)
{
	return add_name(add_name(is_first(b, thread), thread_name(b, thread)), process_name(b, thread));
}

bool baseline_corresponds(const struct blame_log *a, uint32_t x, const struct blame_log *b, uint32_t y)
{
	return baseline_name(a, x) == baseline_name(b, y);
}

struct tally {
	uint32_t thread[ENDERS], times[ENDERS];
	uint32_t edge[ENDERS]; /* the last that ended one */
	size_t n;
	uint32_t all;
};

static void count(const struct blame_log *b, struct tally *t, uint32_t edge, uint32_t waiter)
{
	const uint32_t from = b->edge[edge].from;
	const uint32_t thread = from == FLOW_NONE ? FLOW_NO_THREAD : b->node[from].thread;
	size_t i = 0;

	if (thread == FLOW_NO_THREAD || thread == waiter)
		return;
	while (i < t->n && !baseline_corresponds(b, t->thread[i], b, thread))
		i++;
	if (i == ENDERS)
		return;
	if (i == t->n) {
		t->thread[t->n] = thread;
		t->times[t->n++] = 0;
	}
	t->edge[i] = edge;
	t->times[i]++;
}

static bool is_such(const struct seen_call *w, bool has_call, int call, int kind)
{
	return has_call == (w->id != FLOW_SWITCH) && call == w->call && kind == w->kind;
}

/* The edge that ended a wait inside of a unit: of the same moment, and not of kind wait_for. */
static uint32_t ended_by(const struct blame_log *b, const struct flow_edge *wait)
{
	for (uint32_t i = b->node[wait->to].last_in; i != FLOW_NONE; i = b->edge[i].next_in)
		if (b->edge[i].kind != FLOW_EDGE_WAIT_FOR && b->edge[i].to_ns == wait->to_ns)
			return i;
	return FLOW_NONE;
}

static void count_unit(const struct blame_log *b, const struct flow_node *n, const struct seen_call *w,
		       struct tally *t)
{
	if (is_such(w, n->has_call, n->call, n->object_kind)) {
		t->all++;
		if (n->begin_edge != FLOW_NONE)
			count(b, t, n->begin_edge, n->thread);
	}
	for (uint32_t i = n->last_in; i != FLOW_NONE; i = b->edge[i].next_in) {
		const struct flow_edge *e = &b->edge[i];
		uint32_t by;

		if (e->kind != FLOW_EDGE_WAIT_FOR || e->flags & FLOW_EDGE_OPEN ||
		    !is_such(w, e->has_call, e->call, e->object_kind))
			continue;
		t->all++;
		by = ended_by(b, e);
		if (by != FLOW_NONE)
			count(b, t, by, n->thread);
	}
}

static size_t best_of(const struct tally *t)
{
	size_t best = 0;

	for (size_t i = 1; i < t->n; i++)
		if (t->times[i] > t->times[best])
			best = i;
	return best;
}

/* So many steps belong to one round: up to the waiter's own doing, or to a thread that comes again. */
static size_t steps_of_round(const struct blame_log *b, const struct flow_path *p, uint32_t waiter)
{
	size_t n = 0;

	while (n < p->n && n + 1 < FLOW_PATH_STEPS && p->step[n].edge != FLOW_NONE) {
		const struct flow_edge *e = &b->edge[p->step[n].edge];
		const uint32_t from = b->node[e->from].thread;

		if (e->flags & FLOW_EDGE_OWN)
			return n;
		for (size_t i = 0; i <= n; i++)
			if (b->node[p->step[i].node].thread == from)
				return n;
		n++;
		if (from == waiter)
			return n;
	}
	return n;
}

static void add_link(const struct blame_log *b, uint32_t edge, struct baseline *r)
{
	r->link[r->nlinks++] = (struct baseline_link){ .edge = edge,
						       .from = b->node[b->edge[edge].from].thread,
						       .to = b->node[b->edge[edge].to].thread };
}

/* From the edge that ended the wait backwards; @r has the first cause first. */
static struct wc_error *find_chain(const struct blame_log *b, uint32_t edge, struct baseline *r)
{
	const uint32_t waiter = b->node[b->edge[edge].to].thread;
	struct flow_path p = { 0 };
	struct wc_error *err = flow_path_find(b->g, b->edge[edge].from, b->edge[edge].from_ns, 1, &p);

	if (!err)
		for (size_t n = steps_of_round(b, &p, waiter); n-- > 0;)
			add_link(b, p.step[n].edge, r);
	add_link(b, edge, r);
	flow_path_deinit(&p);
	return err;
}

/* Before that, what happened was for the round before: when the unit before the last one of the thread ended. */
static uint64_t round_begin(const struct blame_log *bad, uint32_t thread)
{
	const struct seen_call *w = &bad->seen->thread[thread].wait;
	uint32_t i = bad->seen->thread[thread].last_node;

	while (i != FLOW_NONE &&
	       !is_such(w, bad->node[i].has_call, bad->node[i].call, bad->node[i].object_kind))
		i = bad->node[i].before;
	return i == FLOW_NONE ? 0 : bad->node[i].begin_ns;
}

static bool same_cause(const struct flow_edge *a, const struct flow_edge *b)
{
	return a->kind == b->kind && a->has_call == b->has_call && a->call == b->call &&
	       a->object_kind == b->object_kind;
}

/* Was there a link like that in the bad log after @after_ns? */
static bool happened(const struct blame_log *good, const struct blame_log *bad, const struct baseline_link *l,
		     uint64_t after_ns)
{
	for (size_t i = bad->nedges; i-- > 0;) {
		const struct flow_edge *e = &bad->edge[i];

		if (e->from_ns > after_ns && e->from != FLOW_NONE && same_cause(&good->edge[l->edge], e) &&
		    baseline_corresponds(good, l->from, bad, bad->node[e->from].thread) &&
		    baseline_corresponds(good, l->to, bad, bad->node[e->to].thread))
			return true;
	}
	return false;
}

/* The one that lives; else one that did. */
static uint32_t counterpart(const struct blame_log *good, uint32_t x, const struct blame_log *bad)
{
	uint32_t gone = FLOW_NO_THREAD;

	for (uint32_t i = (uint32_t)bad->seen->n; i-- > 0;) {
		if (!baseline_corresponds(good, x, bad, i))
			continue;
		if (!blame_is_gone(bad, i))
			return i;
		gone = i;
	}
	return gone;
}

/* Behind the last one that did happen: what came before it may belong to the round before. */
static void find_cut(const struct blame_log *good, const struct blame_log *bad, uint32_t thread,
		     struct baseline *r)
{
	const uint64_t ns = round_begin(bad, thread);

	for (size_t i = 0; i < r->nlinks; i++) {
		r->link[i].happened = happened(good, bad, &r->link[i], ns);
		if (r->link[i].happened)
			r->cut = i + 1;
	}
	r->culprit = counterpart(good, r->link[r->cut < r->nlinks ? r->cut : r->nlinks - 1].from, bad);
}

struct wc_error *baseline_find(const struct blame_log *good, const struct blame_log *bad, uint32_t thread,
			       struct baseline *ret)
{
	const struct seen_call *w = &bad->seen->thread[thread].wait;
	struct wc_error *err;
	struct tally t = { .n = 0 };
	size_t best;

	*ret = (struct baseline){ .ender = FLOW_NO_THREAD, .culprit = FLOW_NO_THREAD };
	if (!blame_waits(bad, thread))
		return NULL;
	for (size_t i = 0; i < good->nnodes; i++)
		if (baseline_corresponds(bad, thread, good, good->node[i].thread))
			count_unit(good, &good->node[i], w, &t);
	ret->waits = t.all;
	if (!t.n)
		return NULL;
	best = best_of(&t);
	ret->ended = t.times[best];
	ret->ender = t.thread[best];
	err = find_chain(good, t.edge[best], ret);
	if (!err)
		find_cut(good, bad, thread, ret);
	return err;
}
