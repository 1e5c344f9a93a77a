/* Waits as the one that goes on, as long as they ended: by whom. */
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "watchctl/flow/blame/link.h"
#include "watchctl/flow/graph/flow_threads.h"

#define ENDERS 32u

struct tally {
	struct {
		uint32_t thread, times;
	} ender[ENDERS];
	size_t n;
	uint32_t all; /* waits that have ended, by whatever */
};

static void count(struct tally *t, uint32_t thread)
{
	size_t i = 0;

	while (i < t->n && t->ender[i].thread != thread)
		i++;
	if (i == ENDERS)
		return;
	if (i == t->n) {
		t->ender[t->n].thread = thread;
		t->ender[t->n++].times = 0;
	}
	t->ender[i].times++;
}

/* The thread that an edge comes from; FLOW_NO_THREAD: none, or @thread itself. */
static uint32_t other(const struct blame_log *b, const struct flow_edge *e, uint32_t thread)
{
	const uint32_t from = e->from == FLOW_NONE ? FLOW_NO_THREAD : b->node[e->from].thread;

	return from == thread ? FLOW_NO_THREAD : from;
}

static bool is_of_call(const struct seen_call *w, bool has_call, int call, int kind, uint32_t object)
{
	return has_call && w->call == call && w->kind == kind && w->object == object;
}

/* Idle waits, which a unit began after. A futex's address is known of the waking only. */
static void count_idle(const struct blame_log *b, const struct flow_node *n, const struct seen_call *w,
		       struct tally *t)
{
	const struct flow_edge *e = n->begin_edge == FLOW_NONE ? NULL : &b->edge[n->begin_edge];

	if (!is_of_call(w, n->has_call, n->call, n->object_kind, n->object))
		return;
	if (w->call == SYS_futex && (!e || e->kind != FLOW_EDGE_LOCK || e->address != w->address))
		return;
	t->all++;
	if (e && other(b, e, n->thread) != FLOW_NO_THREAD)
		count(t, other(b, e, n->thread));
}

static bool is_such_wait(const struct flow_edge *e, const struct seen_call *w)
{
	return e->kind == FLOW_EDGE_WAIT_FOR && !(e->flags & FLOW_EDGE_OPEN) &&
	       is_of_call(w, e->has_call, e->call, e->object_kind, e->object) &&
	       (w->call != SYS_futex || e->address == w->address);
}

static void count_inside(const struct blame_log *b, const struct flow_node *n, const struct seen_call *w,
			 struct tally *t)
{
	for (uint32_t i = n->last_in; i != FLOW_NONE; i = b->edge[i].next_in) {
		if (!is_such_wait(&b->edge[i], w))
			continue;
		t->all++;
		if (other(b, &b->edge[i], n->thread) != FLOW_NO_THREAD)
			count(t, other(b, &b->edge[i], n->thread));
	}
}

struct blame_link blame_until_now(const struct blame_log *b, uint32_t thread)
{
	const struct seen_call *w = &b->seen->thread[thread].wait;
	struct blame_link link = { .to = FLOW_NO_THREAD };
	struct tally t = { .n = 0 };

	for (uint32_t i = b->seen->thread[thread].last_node; i != FLOW_NONE; i = b->node[i].before) {
		count_idle(b, &b->node[i], w, &t);
		count_inside(b, &b->node[i], w, &t);
	}
	for (size_t i = 0; i < t.n; i++) {
		if (t.ender[i].times <= link.times)
			continue;
		link = (struct blame_link){ .to = t.ender[i].thread,
					    .how = BLAME_UNTIL_NOW,
					    .guessed = true,
					    .times = t.ender[i].times };
	}
	link.all = t.all;
	return link;
}
