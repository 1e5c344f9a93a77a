/*
 * Threads that block SIGTRAP. The kernel keeps the first hit of such a thread for later, and merges the
 * others into it. A program that takes what waits there itself (signalfd, sigwait) gets signals that nobody
 * of the program's has sent, and an event loop that hits for each of them comes to no rest: then the watch
 * ends.
 */
#include <stdio.h>
#include <time.h>

#include "watchctl/engine/handler/handler_engine.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/trap_block.h"

#define LOOKS 10u
#define LOOK_NS 1000000
#define BLOCKERS 64u /* looked at, of those that there are */

/* One that blocks it, within some milliseconds. */
struct blocker {
	pid_t tid;
	unsigned int waiting; /* so many looks found a SIGTRAP of its own that waits */
	bool waited;	      /* at the last one */
	bool taken;	      /* what waited does so no more */
	bool over;	      /* it does not block it any more */
};

struct blockers {
	struct blocker v[BLOCKERS];
	unsigned int n;
};

static bool blocks(pid_t pid, pid_t tid, const struct proc_status *s)
{
	return trap_is_blocked_in(pid, tid, s) && !trap_block_is_librarys(s->blocked);
}

static void look_at(pid_t pid, struct blocker *b)
{
	struct proc_status s;
	bool waits;

	if (!proc_status_read(pid, b->tid, &s) || !blocks(pid, b->tid, &s)) {
		b->over = true;
		return;
	}
	waits = s.thread_pending & PROC_SIGTRAP;
	b->waiting += waits;
	b->taken |= b->waited && !waits;
	b->waited = waits;
}

static void find_blockers(const struct engine *e, struct blockers *ret)
{
	struct thread_ids ids = { 0 };
	struct proc_status s;
	size_t i;

	ret->n = 0;
	if (!proc_threads(e->pid, &ids))
		return;
	for (i = 0; i < ids.n && ret->n < BLOCKERS; i++)
		if (proc_status_read(e->pid, ids.v[i], &s) && blocks(e->pid, ids.v[i], &s))
			ret->v[ret->n++] = (struct blocker){ .tid = ids.v[i] };
	thread_ids_deinit(&ids);
}

static void look_at_all(const struct engine *e, struct blockers *b)
{
	unsigned int i, look;

	for (look = 0; look < LOOKS && b->n; look++) {
		for (i = 0; i < b->n; i++)
			if (!b->v[i].over)
				look_at(e->pid, &b->v[i]);
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
}

/* Who shows more of our signals than others: NULL: nobody blocks it all the while. */
static const struct blocker *find_worst(const struct blockers *b)
{
	const struct blocker *worst = NULL;
	unsigned int i;

	for (i = 0; i < b->n; i++) {
		const struct blocker *at = &b->v[i];

		if (at->over)
			continue;
		if (!worst || at->taken > worst->taken ||
		    (at->taken == worst->taken && at->waiting > worst->waiting))
			worst = at;
	}
	return worst;
}

static uint64_t seen_in_all(const struct engine *e)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++)
		sum += e->intake.watch[i].seen;
	return sum;
}

/* Hits are counted and none arrives: nothing waits either, though they were blocked before and are now. */
static bool vanish(const struct blocked *before, const struct blocker *b, uint64_t seen)
{
	return before->tid == b->tid && before->seen == seen && !b->waiting;
}

/* It lets them in from time to time, as ppoll() does, if what waited has arrived. */
static struct wc_error *take(struct engine *e, bool *arrived)
{
	uint64_t before = seen_in_all(e);
	bool any;
	struct wc_error *err = handler_take(e, &any);

	*arrived = seen_in_all(e) != before;
	return err;
}

struct wc_error *handler_look_for_blockers(struct engine *e)
{
	const struct blocked before = e->blocked;
	uint64_t seen = seen_in_all(e);
	const struct blocker *worst;
	struct blockers found;
	struct wc_error *err;
	bool arrived;

	find_blockers(e, &found);
	look_at_all(e, &found);
	worst = find_worst(&found);
	e->blocked = (struct blocked){ worst ? worst->tid : 0, seen };
	if (!worst)
		return NULL;
	err = take(e, &arrived);
	if (err)
		return err;
	if (!arrived && (worst->taken || vanish(&before, worst, seen)))
		snprintf(
			e->why, sizeof(e->why),
			"thread %d of process %d blocks SIGTRAP and receives watchctl's signals itself (signalfd, "
			"sigwait): choose --engine ring or ptrace, which send none",
			worst->tid, e->pid);
	else if (e->options.may_yield && worst->waiting)
		snprintf(
			e->why, sizeof(e->why),
			"thread %d of process %d has begun to block SIGTRAP, and the handler misses its hits",
			worst->tid, e->pid);
	return e->why[0] ? NULL : intake_report_blocked(&e->intake, worst->tid);
}
