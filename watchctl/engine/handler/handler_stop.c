#include <stddef.h>
#include <time.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/handler/handler_engine.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/tracee.h"

#define SETTLE_MS 30u
#define FLUSH_MS 100u
#define NUDGE_MS 20
#define DRAIN_RINGS 2
#define BUSY_MS 10000u
static void keep_first(struct wc_error **first, struct wc_error *err)
{
	if (*first)
		wc_error_free(err);
	else
		*first = err;
}

static bool any_fires(const struct engine *e)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++)
		if (e->watch[i].armed && !e->watch[i].disabled)
			return true;
	return false;
}

/*
 * Once no more hits can come: the ring to its end, whatever the sink says to it. What is under way fits the
 * ring; a program that goes on writing there makes it up.
 */
struct wc_error *handler_drain_all(struct engine *e)
{
	uint64_t most = e->intake.ring.tail + DRAIN_RINGS * e->intake.ring.size;
	struct wc_error *err = NULL;
	bool any;

	do {
		handler_beat(e);
		keep_first(&err, handler_take(e, &any));
		handler_let_go(e);
		if (e->intake.ring.tail < most)
			continue;
		e->intake.corrupt |= !any_fires(e);
		break;
	} while (any);
	return wc_error_first(err, intake_hand_out(&e->intake));
}

static void nudge(pid_t pid)
{
	struct thread_ids ids;
	struct tracee t;
	size_t i;

	if (!proc_threads(pid, &ids))
		return;
	for (i = 0; i < ids.n; i++)
		if (tracee_stop(pid, ids.v[i], NUDGE_MS, &t) == TRACEE_STOPPED)
			tracee_release(&t);
	thread_ids_deinit(&ids);
}

void handler_flush(struct engine *e)
{
	size_t i;

	nudge(e->pid);
	if (e->options.follow_fork)
		handler_find_children(e);
	for (i = 0; i < e->children.n; i++)
		nudge(e->children.v[i]);
}

static struct wc_error *handler_stop_settle(struct engine *e, unsigned int timeout_ms)
{
	struct wc_error *err = handler_drain_all(e);
	uint64_t end = monotonic_ns() + timeout_ms * 1000000ull;

	while (!e->intake.corrupt && handler_outstanding(e) && !handler_all_ended(e) &&
	       monotonic_ns() < end) {
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
		keep_first(&err, handler_drain_all(e));
	}
	return err;
}

static bool flush_all(struct engine *e)
{
	bool all = inject_flush(&e->inj);
	size_t i;

	for (i = 0; i < e->children.n; i++) {
		struct injection inj = handler_of_child(e, e->children.v[i]);

		all &= inject_flush(&inj);
	}
	return all;
}

static bool any_pending(const struct engine *e)
{
	bool pending = inject_has_pending(e->pid);
	size_t i;

	for (i = 0; i < e->children.n && !pending; i++)
		pending = inject_has_pending(e->children.v[i]);
	return pending;
}

/* A thread of @pid is about to take its SIGTRAP, and needs nothing but a CPU for it. */
static bool takes_signal(pid_t pid)
{
	struct thread_ids ids;
	struct proc_status s;
	bool takes = false;
	size_t i;

	if (!proc_threads(pid, &ids))
		return false;
	for (i = 0; i < ids.n && !takes; i++)
		takes = proc_status_read(pid, ids.v[i], &s) && (s.pending & ~s.blocked & PROC_SIGTRAP) &&
			s.state == 'R';
	thread_ids_deinit(&ids);
	return takes;
}

static bool any_takes_signal(const struct engine *e)
{
	bool takes = takes_signal(e->pid);
	size_t i;

	for (i = 0; i < e->children.n && !takes; i++)
		takes = takes_signal(e->children.v[i]);
	return takes;
}

/*
 * What the counts say is not enough where a hit may have been recorded that was not counted
 * (handler_counts_of): it hides one that is counted and still under way. Then each thread is stopped once,
 * whatever they say.
 */
static bool is_all_accounted_for(const struct engine *e)
{
	unsigned int i;

	if (e->left_behind || handler_has_ptrace_watch(e) || handler_outstanding(e))
		return false;
	for (i = 0; i < WIRE_WATCHES; i++)
		if (e->watch[i].armed && e->watch[i].near_another)
			return false;
	return true;
}

/* A handler that must stay, below somebody else's, passes their traps on. */
static void disown_hwbkpt(struct engine *e)
{
	uint32_t none = 0;

	if (handler_has_ptrace_watch(e))
		injection_write(&e->inj, offsetof(struct wire_control, hwbkpt_watch), &none, sizeof(none));
}

/* Every watch disarmed; now every hit must have arrived, or be known never to arrive. */
struct wc_error *handler_stop(struct engine *e)
{
	struct wc_error *err;
	bool pending;
	unsigned int i;

	handler_let_go(e);
	for (i = 0; i < WIRE_WATCHES; i++)
		if (e->watch[i].armed && !e->watch[i].disabled)
			handler_set_flags(e, i, WIRE_WATCH_PARTIAL);
	for (i = 0; i < WIRE_WATCHES; i++)
		handler_disable(&e->watch[i]);
	err = handler_stop_settle(e, SETTLE_MS);
	keep_first(&err, handler_report_unheld(e));
	keep_first(&err, handler_report_roomless(e, true));
	keep_first(&err, handler_report_causeless(e, true));
	keep_first(&err, intake_report_departures(&e->intake, 0));
	if (e->options.follow_fork) /* others have no hits of their own */
		handler_find_children(e);
	e->stopped = true;
	e->settled = true;
	if (e->gone || handler_all_ended(e) || is_all_accounted_for(e))
		return err;
	spare_files_release(&e->spare);
	spare_memory_release(&e->spare_memory);
	e->settled = flush_all(e);
	keep_first(&err, handler_stop_settle(e, FLUSH_MS));
	/* One look without any is enough: a SIGTRAP that comes later is the program's own. */
	for (i = 0; (pending = any_pending(e)) && (i < FLUSH_MS || (i < BUSY_MS && any_takes_signal(e)));
	     i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		keep_first(&err, handler_drain_all(e));
	}
	e->settled = e->settled && !pending;
	if (e->settled)
		disown_hwbkpt(e);
	return err;
}
