/*
 * Ways are weighed: a step to a thread that a lock, the kernel or a descriptor names is 1; what is guessed, one of several that
 * would do, or a thread that is only waiting for work, is further away. The way to a thread is the shortest one from any thread of
 * the process.
 */
#include "watchctl/flow/explain/culprits.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"

#define COST_STEP 1u
#define COST_SOME 3u   /* others may end the wait as well */
#define COST_GUESS 10u /* nothing names it */
#define COST_EVENTS 100u
#define COST_IDLE 1000u
#define FAR UINT_MAX
#define FARTHEST (FAR - 8 * COST_IDLE)

static unsigned int cost_of(const struct explained *from, const struct explained_edge *edge,
			    const struct explained *to)
{
	unsigned int cost = COST_STEP;

	if (from->wait.ender == ENDER_SOME)
		cost += COST_SOME;
	if (from->wait.whom[edge->whom].guessed)
		cost += COST_GUESS;
	if (from->wait.kind == WAIT_EVENTS)
		cost += COST_EVENTS;
	if (edge->any_of_process && to->idle)
		cost += COST_IDLE;
	return cost;
}

/* Shortest ways */

struct ways {
	const struct explanation *e;
	unsigned int *cost; /* FAR: there is none */
	size_t *from;	    /* the step before; itself: it begins there */
	bool *done;
};

static bool ways_init(struct ways *w, const struct explanation *e)
{
	size_t n = e->nthreads ? e->nthreads : 1;

	w->e = e;
	w->cost = calloc(n, sizeof(*w->cost));
	w->from = calloc(n, sizeof(*w->from));
	w->done = calloc(n, sizeof(*w->done));
	return w->cost && w->from && w->done;
}

static void ways_deinit(struct ways *w)
{
	free(w->cost);
	free(w->from);
	free(w->done);
}

static void ways_begin(struct ways *w)
{
	for (size_t i = 0; i < w->e->nthreads; i++)
		w->cost[i] = FAR;
	memset(w->done, 0, w->e->nthreads * sizeof(*w->done));
}

static size_t nearest(const struct ways *w)
{
	size_t best = SIZE_MAX;

	for (size_t i = 0; i < w->e->nthreads; i++)
		if (!w->done[i] && w->cost[i] != FAR && (best == SIZE_MAX || w->cost[i] < w->cost[best]))
			best = i;
	return best;
}

static void step_from(struct ways *w, size_t i, unsigned int most)
{
	const struct explained *x = &w->e->thread[i];

	for (size_t k = 0; k < x->nedges; k++) {
		size_t to = x->edge[k].to;
		unsigned int cost = w->cost[i] + cost_of(x, &x->edge[k], &w->e->thread[to]);

		if (cost > most || cost >= w->cost[to])
			continue;
		w->cost[to] = cost;
		w->from[to] = i;
	}
}

/* From those whose cost is 0 already, by steps of at most @most together. */
static void ways_find(struct ways *w, unsigned int most)
{
	size_t i;

	while ((i = nearest(w)) != SIZE_MAX) {
		w->done[i] = true;
		step_from(w, i, most);
	}
}

/* The way to @to, first step first. NULL: no memory. */
static size_t *ways_path(const struct ways *w, size_t to, size_t *n)
{
	size_t len = 1, *path;

	for (size_t i = to; w->from[i] != i; i = w->from[i])
		len++;
	path = calloc(len, sizeof(*path));
	if (!path)
		return NULL;
	*n = len;
	for (size_t i = to; len--; i = w->from[i])
		path[len] = i;
	return path;
}

static void begin_at(struct ways *w, size_t i)
{
	w->cost[i] = 0;
	w->from[i] = i;
}

/* Cycles */

/* Of the threads through which @i comes back to itself, the shortest way, @i first. *n 0: it does not. False: no memory. */
static bool cycle_through(struct ways *w, size_t i, unsigned int most, size_t **ret, size_t *n)
{
	const struct explained *x = &w->e->thread[i];
	size_t last = SIZE_MAX;
	unsigned int best = FAR;

	*n = 0;
	ways_begin(w);
	begin_at(w, i);
	ways_find(w, most);
	for (size_t k = 0; k < w->e->nthreads; k++) {
		const struct explained_edge *back = w->cost[k] == FAR ? NULL : explanation_edge(w->e, k, i);
		unsigned int cost = back ? w->cost[k] + cost_of(&w->e->thread[k], back, x) : FAR;

		if (cost <= most && cost < best) {
			best = cost;
			last = k;
		}
	}
	if (last == SIZE_MAX)
		return true;
	*ret = ways_path(w, last, n);
	return *ret != NULL;
}

/* How likely it is */

static unsigned int base_score(enum verdict v)
{
	static const unsigned int score[] = {
		[VERDICT_DEADLOCK] = 100, [VERDICT_NOBODY] = 95,
		[VERDICT_STOPPED] = 85,	  [VERDICT_LIKELY_DEADLOCK] = 80,
		[VERDICT_KERNEL] = 60,	  [VERDICT_BUSY] = 55,
		[VERDICT_SLEEPS] = 50,	  [VERDICT_OUTSIDE] = 40,
		[VERDICT_WAITS] = 30,	  [VERDICT_IDLE] = 5,
	};

	return score[v];
}

/* A thread of the process that nobody of it waits for: many sleep and wait all day, and it is the first one that shows. */
static unsigned int alone_score(const struct explained *x, enum verdict v)
{
	bool first = x->thread->tid == x->thread->pid;

	switch (v) {
	case VERDICT_SLEEPS:
		return first ? 35 : 12;
	case VERDICT_OUTSIDE:
		return first ? 40 : 20;
	case VERDICT_WAITS:
		return first ? 30 : x->idle ? 2 : 8;
	case VERDICT_IDLE:
		return first ? 5 : 3;
	default:
		return base_score(v);
	}
}

static unsigned int minus(unsigned int a, unsigned int b)
{
	return a > b ? a - b : 0;
}

static bool is_first(const struct explanation *e, size_t i)
{
	return e->thread[i].thread->tid == e->pid;
}

static unsigned int score_of(const struct explanation *e, const struct culprit *c, unsigned int cost)
{
	const struct explained *x = &e->thread[c->who];
	unsigned int score;

	if (c->npath <= 1 && c->who < e->nown && !c->waiters)
		score = alone_score(x, c->verdict);
	else
		score = base_score(c->verdict) + 20;
	if (c->verdict == VERDICT_BUSY && x->thread->ran_ns < 50000000)
		score = minus(score, 25); /* it just happened to run */
	if (cost >= COST_IDLE)
		score = minus(score, 60);
	else if (cost >= COST_EVENTS)
		score = minus(score, 45);
	if (c->guessed)
		score = minus(score, 15);
	if (c->npath && is_first(e, c->path[0]))
		score += 3;
	return score + (c->waiters < 10 ? c->waiters : 10);
}

static enum verdict end_verdict(const struct explained *x)
{
	switch (x->wait.kind) {
	case WAIT_RUNS:
		return VERDICT_BUSY;
	case WAIT_STOPPED:
		return VERDICT_STOPPED;
	case WAIT_KERNEL:
		return VERDICT_KERNEL;
	case WAIT_TIME:
		return VERDICT_SLEEPS;
	default:
		break;
	}
	if (x->wait.ender == ENDER_NOBODY)
		return VERDICT_NOBODY;
	if (x->wait.kind == WAIT_EVENTS || (x->idle && x->wait.has_limit))
		return VERDICT_IDLE;
	if (x->wait.ender == ENDER_OUTSIDE)
		return x->idle ? VERDICT_IDLE : VERDICT_OUTSIDE;
	return VERDICT_WAITS;
}

/* All for whom it waits, if anybody, only wait for work: the chain that matters ends here. */
static bool is_end(const struct explanation *e, const struct explained *x)
{
	for (size_t i = 0; i < x->nedges; i++) {
		const struct explained *to = &e->thread[x->edge[i].to];

		/* Its own descriptor, among those that it polls: a real wait for itself is a circle. */
		if (to == x)
			continue;
		if (to->stuck || !to->idle || (!x->edge[i].any_of_process && to->process == x->process))
			return false;
	}
	return true;
}

/* Collecting them */

struct finding {
	struct explanation *e;
	struct ways ways;
	bool *in_cycle;
	unsigned int *waiters; /* threads of the process that wait for it, but itself */
	/*
	 * The thread of the process that the way to it begins at: the first one, if it waits for it without a guess; else, of
	 * those that do, the one furthest away, which shows most of the chain; else the nearest. Itself if there is none.
	 */
	size_t *source;
	unsigned int *cost; /* of that way; FAR: there is none */
};

static bool is_guessed(const struct explanation *e, const size_t *path, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		const struct explained_edge *edge = explanation_edge(e, path[i - 1], path[i]);

		if (edge && e->thread[path[i - 1]].wait.whom[edge->whom].guessed)
			return true;
	}
	return false;
}

static bool add_culprit(struct finding *f, struct culprit c)
{
	struct explanation *e = f->e;

	ways_begin(&f->ways);
	begin_at(&f->ways, c.ncycle && c.who < e->nown ? c.who : f->source[c.who]);
	ways_find(&f->ways, FARTHEST);
	c.path = ways_path(&f->ways, c.who, &c.npath);
	if (c.path) {
		c.waiters = f->waiters[c.who];
		c.guessed = is_guessed(e, c.path, c.npath) || is_guessed(e, c.cycle, c.ncycle);
		c.score = score_of(e, &c, f->cost[c.who]);
		if (vec_push(e->culprit, e->nculprits, e->culprit_cap, c))
			return true;
	}
	free(c.path);
	free(c.cycle);
	return false;
}

/* Whether the way to @to that begins at @i, just found, is to replace the one known so far. */
static bool is_better_source(const struct finding *f, size_t i, size_t to)
{
	unsigned int cost = f->ways.cost[to], old = f->cost[to];
	bool certain = cost < COST_GUESS;

	if (old == FAR || certain != (old < COST_GUESS))
		return old == FAR || certain;
	if (!certain)
		return cost < old;
	return !is_first(f->e, f->source[to]) && (is_first(f->e, i) || cost > old);
}

/* Each thread of the process counts once, by steps that are no guesses and wait for no events. Of equal ways the first is kept. */
static void find_waiters(struct finding *f)
{
	const struct explanation *e = f->e;

	for (size_t i = 0; i < e->nthreads; i++) {
		f->cost[i] = FAR;
		f->source[i] = i;
	}
	for (size_t i = 0; i < e->nown; i++) {
		ways_begin(&f->ways);
		begin_at(&f->ways, i);
		ways_find(&f->ways, FARTHEST);
		for (size_t k = 0; k < e->nthreads; k++) {
			unsigned int cost = f->ways.cost[k];

			if (k == i || cost == FAR)
				continue;
			/* Threads of one program wake each other up, and are no chain for that. */
			if (k < e->nown && cost >= COST_EVENTS)
				continue;
			f->waiters[k] += cost < COST_GUESS;
			if (!is_better_source(f, i, k))
				continue;
			f->cost[k] = cost;
			f->source[k] = i;
		}
	}
	for (size_t i = 0; i < e->nown; i++)
		if (f->cost[i] == FAR)
			f->cost[i] = 0;
}

static bool is_all_stuck(const struct explanation *e, const size_t *cycle, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!e->thread[cycle[i]].stuck)
			return false;
	return true;
}

/* One of them ran between the two looks: a lock that is handed round fast looks like a cycle at one moment. */
static bool goes_on(const struct explanation *e, const size_t *cycle, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (e->thread[cycle[i]].thread->ran_ns)
			return true;
	return false;
}

/* It is told from a thread of the process on, or else from where the way from the process comes in. */
static void turn_cycle(const struct finding *f, struct culprit *c)
{
	size_t best = 0, *turned = calloc(c->ncycle, sizeof(*turned));

	for (size_t k = 1; k < c->ncycle; k++) {
		bool own = c->cycle[k] < f->e->nown, best_own = c->cycle[best] < f->e->nown;

		if (own != best_own ? own
		    : own	    ? c->cycle[k] < c->cycle[best]
				    : f->cost[c->cycle[k]] < f->cost[c->cycle[best]])
			best = k;
	}
	for (size_t k = 0; turned && k < c->ncycle; k++)
		turned[k] = c->cycle[(best + k) % c->ncycle];
	if (!turned)
		return;
	free(c->cycle);
	c->cycle = turned;
	c->who = turned[0];
}

static bool add_cycle(struct finding *f, size_t i)
{
	struct culprit c = { .who = i };
	unsigned int most = f->e->thread[i].stuck ? FARTHEST : COST_EVENTS - 1;

	if (!cycle_through(&f->ways, i, most, &c.cycle, &c.ncycle))
		return false;
	if (!c.ncycle || goes_on(f->e, c.cycle, c.ncycle)) {
		free(c.cycle);
		return true;
	}
	for (size_t k = 0; k < c.ncycle; k++)
		f->in_cycle[c.cycle[k]] = true;
	turn_cycle(f, &c);
	c.verdict = is_all_stuck(f->e, c.cycle, c.ncycle) ? VERDICT_DEADLOCK : VERDICT_LIKELY_DEADLOCK;
	return add_culprit(f, c);
}

/* A signal stops all threads of a process: the first one stands for them. */
static bool is_stopped_with_first(const struct explained *x)
{
	const struct look_thread *first = look_thread(x->process, 0);

	return x->wait.kind == WAIT_STOPPED && first && first != x->thread &&
	       first->state == x->thread->state;
}

static bool add_ends(struct finding *f)
{
	const struct explanation *e = f->e;

	for (size_t i = 0; i < e->nthreads; i++) {
		struct culprit c = { .who = i };

		if (f->in_cycle[i] || f->cost[i] == FAR || !is_end(e, &e->thread[i]) ||
		    is_stopped_with_first(&e->thread[i]))
			continue;
		c.verdict = end_verdict(&e->thread[i]);
		if (!add_culprit(f, c))
			return false;
	}
	return true;
}

static int by_score(const void *a, const void *b)
{
	const struct culprit *x = a, *y = b;

	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	return (x->who > y->who) - (x->who < y->who);
}

static void drop_culprit(struct culprit *c)
{
	free(c->path);
	free(c->cycle);
}

/*
 * Culprits half as likely as the first would only distract from it; but where it is not known who could end its wait, it may be any other
 * thread of the process.
 */
static bool is_worth_telling(const struct explanation *e, const struct culprit *c)
{
	const struct culprit *first = e->culprit;

	if (2 * c->score > first->score)
		return true;
	return first->verdict == VERDICT_WAITS && e->thread[first->who].wait.ender == ENDER_UNKNOWN &&
	       c->who < e->nown && c->score;
}

static void keep_best(struct explanation *e)
{
	size_t n = 0;

	if (e->nculprits)
		qsort(e->culprit, e->nculprits, sizeof(e->culprit[0]), by_score);
	for (size_t i = 0; i < e->nculprits; i++) {
		if (n < CULPRITS_MAX && is_worth_telling(e, &e->culprit[i]))
			e->culprit[n++] = e->culprit[i];
		else
			drop_culprit(&e->culprit[i]);
	}
	e->nculprits = n;
}

static bool find_all(struct finding *f)
{
	const struct explanation *e = f->e;

	find_waiters(f);
	for (size_t i = 0; i < e->nthreads; i++)
		if (!f->in_cycle[i] && f->cost[i] != FAR && !add_cycle(f, i))
			return false;
	return add_ends(f);
}

bool culprits_find(struct explanation *e)
{
	struct finding f = { .e = e };
	size_t n = e->nthreads ? e->nthreads : 1;
	bool done;

	f.in_cycle = calloc(n, sizeof(*f.in_cycle));
	f.waiters = calloc(n, sizeof(*f.waiters));
	f.source = calloc(n, sizeof(*f.source));
	f.cost = calloc(n, sizeof(*f.cost));
	done = ways_init(&f.ways, e) && f.in_cycle && f.waiters && f.source && f.cost && find_all(&f);
	keep_best(e);
	ways_deinit(&f.ways);
	free(f.in_cycle);
	free(f.waiters);
	free(f.source);
	free(f.cost);
	return done;
}
