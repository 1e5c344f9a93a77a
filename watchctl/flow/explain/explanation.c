/* The graph grows: threads are added as somebody is found to wait for them, until nobody new is. */
#include "watchctl/flow/explain/explanation.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/flow/explain/culprits.h"
#include "watchctl/flow/explain/wait_descriptor.h"
#include "watchctl/flow/explain/wait_futex.h"
#include "watchctl/flow/explain/wait_process.h"

struct growing {
	struct look *look;
	struct descriptors *descriptors;
	struct explanation *e;
	struct map64 index; /* tid -> 1 + index of the thread */
};

static bool is_idle(const struct explained *x)
{
	const struct wait *w = &x->wait;

	switch (w->kind) {
	case WAIT_EVENTS:
	case WAIT_CONDITION:
	case WAIT_SIGNAL:
		return w->ender != ENDER_NOBODY;
	case WAIT_PEER:
		return w->ender == ENDER_OUTSIDE && w->idle;
	default:
		return false;
	}
}

static void find_wait(struct growing *g, struct explained *x)
{
	struct look_process *p = x->process;
	struct look_thread *t = x->thread;
	bool opened = look_open(g->look, p);

	look_stack(g->look, p, t);
	if (wait_by_state(g->look, t, &x->wait))
		return;
	t->number = wait_call(p, t);
	if (opened && (t->number == SYS_futex || t->number == SYS_futex_waitv))
		wait_futex(g->look, p, t, &x->wait);
	else if (t->number < 0 ||
		 !wait_descriptor(g->descriptors, t->pid, t->tid, &p->mem, t->number, t->arg, &x->wait))
		wait_process(g->look, g->descriptors, p, t, &x->wait);
	x->idle = is_idle(x);
}

/* False: no memory. Zombies wait for nothing. */
static bool add_thread(struct growing *g, struct look_process *p, struct look_thread *t)
{
	struct explanation *e = g->e;
	struct explained x = { .process = p, .thread = t };

	if (t->state == 'Z' || t->state == 'X' || map64_get(&g->index, (uint64_t)t->tid))
		return true;
	if (e->nthreads == EXPLANATION_THREADS) {
		e->bounded = true;
		return true;
	}
	return vec_push(e->thread, e->nthreads, e->thread_cap, x) &&
	       map64_put(&g->index, (uint64_t)t->tid, (void *)(uintptr_t)e->nthreads);
}

static bool add_process(struct growing *g, struct look_process *p, pid_t tid)
{
	struct look_thread *t;

	if (tid)
		return !(t = look_thread(p, tid)) || add_thread(g, p, t);
	for (size_t i = 0; i < p->nthreads; i++)
		if (!add_thread(g, p, p->thread[i]))
			return false;
	return true;
}

static bool grow(struct growing *g)
{
	for (size_t i = 0; i < g->e->nthreads; i++) {
		struct explained x = g->e->thread[i]; /* the array moves as it grows */

		find_wait(g, &x);
		g->e->thread[i] = x;
		for (size_t k = 0; k < x.wait.n; k++) {
			struct look_process *p = look_process(g->look, x.wait.whom[k].pid);

			/* We are no part of it, though what asks may wait for us. */
			if (p && p->pid != getpid() && !add_process(g, p, x.wait.whom[k].tid))
				return false;
		}
	}
	return true;
}

/* Edges */

static bool add_edge(struct growing *g, struct explained *x, pid_t tid, size_t whom, bool any)
{
	uintptr_t at = (uintptr_t)map64_get(&g->index, (uint64_t)tid);
	struct explained_edge edge = { .to = at - 1, .whom = whom, .any_of_process = any };

	if (!at)
		return true;
	for (size_t i = 0; i < x->nedges; i++)
		if (x->edge[i].to == edge.to)
			return true;
	return vec_push(x->edge, x->nedges, x->edge_cap, edge);
}

/* A wait for a process is one for any of its threads, but not for the waiting thread itself, unless it is the only one. */
static bool link_whom(struct growing *g, struct explained *x, size_t whom)
{
	const struct waited *w = &x->wait.whom[whom];
	struct look_process *p = look_process(g->look, w->pid);

	if (!p)
		return true;
	if (w->tid)
		return add_edge(g, x, w->tid, whom, false);
	for (size_t i = 0; i < p->nthreads; i++)
		if ((p->thread[i] != x->thread || p->nthreads == 1) &&
		    !add_edge(g, x, p->thread[i]->tid, whom, p->nthreads > 1))
			return false;
	return true;
}

static bool link_all(struct growing *g)
{
	struct explanation *e = g->e;

	for (size_t i = 0; i < e->nthreads; i++)
		for (size_t k = 0; k < e->thread[i].wait.n; k++)
			if (!link_whom(g, &e->thread[i], k))
				return false;
	return true;
}

static bool can_be_stuck(const struct explained *x)
{
	if (x->wait.has_limit)
		return false;
	return x->wait.ender == ENDER_NOBODY || (x->wait.ender == ENDER_THREADS && x->nedges);
}

static bool waits_for_stuck_only(const struct explanation *e, const struct explained *x)
{
	for (size_t i = 0; i < x->nedges; i++)
		if (!e->thread[x->edge[i].to].stuck)
			return false;
	return true;
}

/* The greatest fixed point: all are, until one is found that somebody can let go on. */
static void find_stuck(struct explanation *e)
{
	bool changed = true;

	for (size_t i = 0; i < e->nthreads; i++)
		e->thread[i].stuck = can_be_stuck(&e->thread[i]);
	while (changed) {
		changed = false;
		for (size_t i = 0; i < e->nthreads; i++) {
			struct explained *x = &e->thread[i];

			if (!x->stuck || waits_for_stuck_only(e, x))
				continue;
			x->stuck = false;
			changed = true;
		}
	}
}

static bool explain(struct growing *g, pid_t pid)
{
	struct look_process *p = look_process(g->look, pid);

	g->descriptors = descriptors_new();
	if (!g->descriptors || !p || !add_process(g, p, 0))
		return false;
	g->e->pid = pid;
	g->e->nown = g->e->nthreads;
	if (!grow(g) || !link_all(g))
		return false;
	find_stuck(g->e);
	return culprits_find(g->e);
}

struct wc_error *explanation_new(struct look *l, pid_t pid, struct explanation **ret)
{
	struct growing g = { .look = l, .e = calloc(1, sizeof(struct explanation)) };
	bool done = g.e && explain(&g, pid);

	descriptors_free(g.descriptors);
	map64_deinit(&g.index);
	if (!done) {
		explanation_free(g.e);
		return &wc_enomem;
	}
	*ret = g.e;
	return NULL;
}

void explanation_free(struct explanation *e)
{
	if (!e)
		return;
	for (size_t i = 0; i < e->nthreads; i++) {
		wait_deinit(&e->thread[i].wait);
		free(e->thread[i].edge);
	}
	for (size_t i = 0; i < e->nculprits; i++) {
		free(e->culprit[i].path);
		free(e->culprit[i].cycle);
	}
	free(e->thread);
	free(e->culprit);
	free(e);
}

void explanation_freep(struct explanation **e)
{
	explanation_free(*e);
}

const struct explained_edge *explanation_edge(const struct explanation *e, size_t from, size_t to)
{
	const struct explained *x = &e->thread[from];

	for (size_t i = 0; i < x->nedges; i++)
		if (x->edge[i].to == to)
			return &x->edge[i];
	return NULL;
}
