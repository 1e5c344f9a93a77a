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

/* Of one thread, within some milliseconds. */
struct looks {
	unsigned int blocked, waiting;
	bool taken; /* what waited does so no more */
};

static bool blocks(const struct proc_status *s)
{
	return (s->blocked & PROC_SIGTRAP) && !trap_block_is_librarys(s->blocked);
}

static struct looks look_at(pid_t pid, pid_t tid)
{
	struct looks l = { 0 };
	struct proc_status s;
	bool waited = false;
	unsigned int i;

	for (i = 0; i < LOOKS; i++) {
		if (!proc_status_read(pid, tid, &s) || !blocks(&s))
			break;
		l.blocked++;
		l.waiting += !!(s.pending & PROC_SIGTRAP);
		l.taken |= waited && !(s.pending & PROC_SIGTRAP);
		waited = s.pending & PROC_SIGTRAP;
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	}
	return l;
}

/* The first thread that blocks it all the while; 0: none. */
static pid_t find_blocker(const struct engine *e, struct looks *ret)
{
	struct thread_ids ids = { 0 };
	struct proc_status s;
	pid_t found = 0;
	size_t i;

	if (!proc_threads(e->pid, &ids))
		return 0;
	for (i = 0; i < ids.n && !found; i++) {
		if (!proc_status_read(e->pid, ids.v[i], &s) || !blocks(&s))
			continue;
		*ret = look_at(e->pid, ids.v[i]);
		if (ret->blocked == LOOKS)
			found = ids.v[i];
	}
	thread_ids_deinit(&ids);
	return found;
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
static bool vanish(const struct blocked *before, pid_t tid, const struct looks *l, uint64_t seen)
{
	return before->tid == tid && before->seen == seen && !l->waiting;
}

struct wc_error *handler_look_for_blockers(struct engine *e)
{
	const struct blocked before = e->blocked;
	uint64_t seen = seen_in_all(e);
	struct looks l = { 0 };
	pid_t tid = find_blocker(e, &l);

	e->blocked = (struct blocked){ tid, seen };
	if (!tid)
		return NULL;
	if (l.taken || vanish(&before, tid, &l, seen))
		snprintf(
			e->why, sizeof(e->why),
			"thread %d of process %d blocks SIGTRAP and receives watchctl's signals itself (signalfd, "
			"sigwait): choose --engine ring, which sends none",
			tid, e->pid);
	return intake_report_blocked(&e->intake, tid);
}
