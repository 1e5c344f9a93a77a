#include "watchctl/flow/blame/blame.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "watchctl/base/vec.h"
#include "watchctl/flow/graph/flow_threads.h"

#define WAITERS_COUNT 20u /* more do not raise the score */

static bool is_long(const struct blame_log *b, uint64_t since_ns)
{
	const uint64_t ns = b->seen->end_ns - since_ns;

	return ns >= BLAME_LONG_NS || ns >= (b->seen->end_ns - b->seen->first_ns) / 2;
}

bool blame_spins(const struct blame_log *b, uint32_t thread)
{
	const struct seen_thread *t = &b->seen->thread[thread];

	if (flow_graph_state(b->g, thread) != FLOW_STATE_RUNS || blame_is_gone(b, thread) || !t->woken_ns)
		return false;
	return t->cpu_ns >= (b->seen->end_ns - t->woken_ns) / 2 && is_long(b, t->woken_ns);
}

/* Of what the thread does at the end of the log, without regard to for whom it waits. */
static enum verdict state_of(const struct blame_log *b, uint32_t thread)
{
	const struct seen_call *w = &b->seen->thread[thread].wait;

	if (blame_is_gone(b, thread))
		return VERDICT_GONE;
	if (!blame_waits(b, thread))
		return VERDICT_BUSY;
	if (blame_is_stopped(b, thread))
		return VERDICT_STOPPED;
	if ((w->why & FLOW_WHY_MASK) == FLOW_BLOCKED)
		return VERDICT_KERNEL;
	if (w->id != FLOW_SWITCH && blame_call_sleeps(w->call))
		return VERDICT_SLEEPS;
	if (w->id == FLOW_SWITCH)
		return VERDICT_IDLE;
	if (w->kind == FLOW_KIND_INET && !flow_graph_peer(b->g, w->kind, w->object) &&
	    !blame_call_polls(w->call))
		return VERDICT_OUTSIDE;
	return VERDICT_WAITS;
}

static bool takes_anything(const struct seen_call *w)
{
	return blame_call_polls(w->call) || w->call == SYS_accept || w->call == SYS_accept4;
}

/* An event loop behind the first one owes nothing to those that have begun its units until now. */
static bool ends_at(const struct blame *b, uint32_t thread, bool is_first)
{
	const struct blame_link *l = &b->link[thread];

	return !l->how || l->nobody ||
	       (!is_first && l->how == BLAME_UNTIL_NOW && takes_anything(&b->log.seen->thread[thread].wait));
}

static size_t index_of(const struct blamed *c, uint32_t thread)
{
	size_t i = 0;

	while (i < c->npath && c->path[i] != thread)
		i++;
	return i;
}

/* From @first on, to the end. Of the circle @who is the one that is reached first. False: no memory. */
static bool follow(const struct blame *b, uint32_t first, struct blamed *c)
{
	uint32_t thread = first;
	size_t cap = 0;

	*c = (struct blamed){ 0 };
	for (;;) {
		if (!vec_push(c->path, c->npath, cap, thread))
			return false;
		c->who = thread;
		c->circle = c->npath;
		if (ends_at(b, thread, thread == first))
			return true;
		c->circle = index_of(c, b->link[thread].to);
		/* That it may have inherited something is no reason to close a circle. */
		if (c->circle < c->npath && b->link[thread].how == BLAME_HEIR) {
			c->circle = c->npath;
			return true;
		}
		c->guessed |= b->link[thread].guessed;
		thread = b->link[thread].to;
		if (c->circle < c->npath)
			break;
	}
	c->who = thread;
	return true;
}

/* Locks and the ends of threads and children are sure; what goes through a pipe could come from elsewhere. */
static bool is_sure(const struct blame *b, const struct blamed *c)
{
	for (size_t i = c->circle; i < c->npath; i++) {
		const struct blame_link *l = &b->link[c->path[i]];

		if (l->guessed || (l->how != BLAME_OWNER && l->how != BLAME_JOIN && l->how != BLAME_CHILD))
			return false;
	}
	return true;
}

static enum verdict verdict_of(const struct blame *b, const struct blamed *c)
{
	enum verdict v;

	if (c->circle < c->npath)
		return is_sure(b, c) ? VERDICT_DEADLOCK : VERDICT_LIKELY_DEADLOCK;
	if (b->link[c->who].nobody)
		return VERDICT_NOBODY;
	v = state_of(&b->log, c->who);
	/* Somebody waits for it: then it is no loop that waits for work. */
	if (v == VERDICT_WAITS && c->npath == 1 && takes_anything(&b->log.seen->thread[c->who].wait))
		return VERDICT_IDLE;
	return v;
}

static uint32_t minus(uint32_t a, uint32_t b)
{
	return a > b ? a - b : 0;
}

/* Many threads sleep and wait all day, with nobody who waits for them; the first of a process is the one that shows. */
static bool is_one_of_many(const struct blame *b, const struct blamed *c)
{
	const struct flow_thread *t = &b->log.threads->thread[c->who];

	return c->npath == 1 && !c->waiters && t->tid != t->pid && c->circle == c->npath &&
	       (c->verdict == VERDICT_SLEEPS || c->verdict == VERDICT_WAITS || c->verdict == VERDICT_OUTSIDE);
}

static uint32_t score_of(const struct blame *b, const struct blamed *c)
{
	static const uint8_t base[] = {
		[VERDICT_DEADLOCK] = 100, [VERDICT_NOBODY] = 95,
		[VERDICT_STOPPED] = 85,	  [VERDICT_LIKELY_DEADLOCK] = 80,
		[VERDICT_GONE] = 65,	  [VERDICT_KERNEL] = 60,
		[VERDICT_BUSY] = 55,	  [VERDICT_SLEEPS] = 50,
		[VERDICT_OUTSIDE] = 40,	  [VERDICT_WAITS] = 30,
		[VERDICT_IDLE] = 5,
	};
	const uint32_t waiters = c->waiters < WAITERS_COUNT ? c->waiters : WAITERS_COUNT;
	uint32_t score = base[c->verdict] + waiters + (c->npath > 1 || c->waiters ? 20 : 0);

	if (is_one_of_many(b, c))
		score /= 4;
	if (c->verdict == VERDICT_BUSY && !blame_spins(&b->log, c->who))
		score = minus(score, 25); /* it just happened to run */
	return c->guessed ? minus(score, 15) : score;
}

/* Does a wait that the rules call idle hold something up all the same? */
static bool is_suspect(const struct blame *b, const struct blamed *c)
{
	const uint32_t thread = c->path[0];
	const struct blame_link *l = &b->link[thread];
	const enum verdict v = state_of(&b->log, thread);

	if (!blame_waits(&b->log, thread))
		return blame_spins(&b->log, thread);
	if (!is_long(&b->log, b->log.seen->thread[thread].wait.ns))
		return false;
	if (c->circle < c->npath && !c->guessed)
		return true;
	if (flow_graph_state(b->log.g, thread) == FLOW_STATE_IDLE)
		return l->how == BLAME_OWNER || l->how == BLAME_JOIN;
	return l->how || v == VERDICT_KERNEL || v == VERDICT_STOPPED;
}

/* The same end: of a circle any of its members. */
static struct blamed *find(const struct blame *b, const struct blamed *c)
{
	for (size_t i = 0; i < b->n; i++) {
		struct blamed *x = &b->culprit[i];

		if (x->who == c->who || (x->circle < x->npath && index_of(x, c->who) >= x->circle &&
					 index_of(x, c->who) < x->npath))
			return x;
	}
	return NULL;
}

/* The path that says most is kept: one without guesses, and of those the longest. Takes @c. */
static bool add(struct blame *b, struct blamed *c)
{
	struct blamed *old = find(b, c);
	struct blamed t;

	c->verdict = verdict_of(b, c);
	if (!old) {
		if (vec_push(b->culprit, b->n, b->cap, *c))
			return true;
		free(c->path);
		return false;
	}
	if (c->guessed < old->guessed || (c->guessed == old->guessed && c->npath > old->npath)) {
		t = *old;
		*old = *c;
		*c = t;
	}
	free(c->path);
	return true;
}

/* Of some no more is known than that they were there. */
static bool has_events(const struct blame_log *b, uint32_t thread)
{
	return flow_graph_state(b->g, thread) != FLOW_STATE_UNSEEN || blame_is_gone(b, thread);
}

static bool add_suspects(struct blame *b, const bool *chosen)
{
	const size_t n = b->log.seen->n;

	for (uint32_t i = 0; i < n; i++) {
		struct blamed c;

		if ((chosen && !chosen[i]) || !has_events(&b->log, i))
			continue;
		if (!follow(b, i, &c)) {
			free(c.path);
			return false;
		}
		if (!chosen && !is_suspect(b, &c)) {
			free(c.path);
			continue;
		}
		b->suspects++;
		if (!add(b, &c))
			return false;
	}
	return true;
}

/* False: no memory. */
static bool count_waiter(struct blame *b, uint32_t thread)
{
	struct blamed c, *x;
	const bool ok = follow(b, thread, &c);

	x = ok ? find(b, &c) : NULL;
	if (x && x->who != thread)
		x->waiters++;
	free(c.path);
	return ok;
}

/* All threads whose waits lead there, suspects or not. */
static bool count_waiters(struct blame *b)
{
	for (uint32_t i = 0; i < b->log.seen->n; i++)
		if (blame_waits(&b->log, i) && b->link[i].how && !count_waiter(b, i))
			return false;
	return true;
}

static int compare(const void *a, const void *b)
{
	const struct blamed *x = a, *y = b;

	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	if (x->npath != y->npath)
		return x->npath < y->npath ? 1 : -1;
	return x->who < y->who ? -1 : x->who > y->who;
}

static bool find_all(struct blame *b, const bool *chosen, uint32_t thread, const struct blame_link *link)
{
	const size_t n = b->log.seen->n;

	b->link = calloc(n + 1, sizeof(*b->link));
	if (!b->link)
		return false;
	for (uint32_t i = 0; i < n; i++)
		b->link[i] = link && i == thread ? *link : blame_link_of(&b->log, i);
	if (!add_suspects(b, chosen) || !count_waiters(b))
		return false;
	for (size_t i = 0; i < b->n; i++)
		b->culprit[i].score = score_of(b, &b->culprit[i]);
	if (b->n)
		qsort(b->culprit, b->n, sizeof(*b->culprit), compare);
	return true;
}

struct wc_error *blame_find_knowing(const struct flow_graph *g, const struct seen *s, const bool *chosen,
				    uint32_t thread, const struct blame_link *link, struct blame *ret)
{
	struct blame b = { .log = blame_log_of(g, s) };

	if (find_all(&b, chosen, thread, link)) {
		*ret = b;
		return NULL;
	}
	blame_deinit(&b);
	return &wc_enomem;
}

struct wc_error *blame_find(const struct flow_graph *g, const struct seen *s, const bool *chosen,
			    struct blame *ret)
{
	return blame_find_knowing(g, s, chosen, FLOW_NO_THREAD, NULL, ret);
}

void blame_deinit(struct blame *b)
{
	for (size_t i = 0; i < b->n; i++)
		free(b->culprit[i].path);
	free(b->culprit);
	free(b->link);
	*b = (struct blame){ 0 };
}
