/* What the parts of the handler engine know of their target, its memory and its counts. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/handler/handler_engine.h"
#include "watchctl/engine/plan/watchpoint.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/process_fd.h"

/* how often it looks at the modules unasked */
#define SEARCH_NS 100000000ull /* how often it looks for living children of a target that has ended */
/* so long a thread that is to take its SIGTRAP may wait for a CPU */
#define UNCOUNTED_NS 5000000ull /* so long, after a register is cleared, a SIGTRAP of it may be under way */

void handler_write(const struct engine *e, uint64_t offset, const void *buf, size_t len)
{
	const struct wire_area *guard;

	injection_write(&e->inj, offset, buf, len);
	if (!e->guard)
		return;
	guard = kernel_recorder_area(e->guard);
	guard->write(guard->ctx, offset, buf, len);
}

void handler_say(const struct engine *e, const char *text)
{
	if (e->options.say)
		e->options.say(e->options.say_ctx, "%s", text);
}

void handler_beat(struct engine *e)
{
	const uint64_t at = offsetof(struct wire_control, heartbeat);
	uint64_t n = monotonic_ns();

	if (e->inj.shared) /* from two threads */
		__atomic_store_n((uint64_t *)((char *)e->inj.shared + at), n, __ATOMIC_RELAXED);
	else
		injection_write(&e->inj, at, &n, sizeof(n));
}

bool handler_target_ended(const struct engine *e)
{
	return process_fd_ended(e->pidfd, 0);
}

bool handler_all_ended(struct engine *e)
{
	uint64_t now;

	if (!handler_target_ended(e))
		return false;
	if (!e->options.follow_fork || e->childless)
		return true;
	now = monotonic_ns();
	if (now - e->searched_ns < SEARCH_NS || !family_watch_ended(&e->family))
		return false;
	e->searched_ns = now;
	e->childless = handler_no_child_lives(e);
	return e->childless;
}

enum memory_state handler_memory_state(const struct engine *e)
{
	struct memory_view mem = proc_memory(&e->pid);
	uint64_t magic = 0;

	errno = 0;
	if (memory_read(&mem, e->inj.control, &magic, sizeof(magic)) && magic == WIRE_MAGIC)
		return MEMORY_OURS;
	return errno == EPERM || errno == EACCES ? MEMORY_BARRED : MEMORY_GONE;
}

bool handler_target_execed(const struct engine *e)
{
	/* A process that is ending gives its memory up first: that it has ended shows a moment later. */
	return !e->unmapped && handler_memory_state(e) == MEMORY_GONE && !proc_is_ending(e->pid, e->pid);
}

/* First the handler's: what it recorded before the guard took over comes before what the guard did. */
struct wc_error *handler_take(struct engine *e, bool *any)
{
	uint64_t now = monotonic_ns();
	struct wc_error *err;
	bool taken = false;

	handler_ask_behind(e);
	err = intake_pass(&e->intake, any);

	if (!err && e->guard)
		err = kernel_recorder_take(e->guard, &e->intake, now, &taken);
	*any |= taken;
	handler_report_done(e);
	unheld_lags(&e->unheld, e->done < e->intake.behind);
	return err;
}

void handler_dropped(const struct engine *e, unsigned int i, uint64_t *filtered, uint64_t *lost)
{
	struct wire_watch shared = { 0 };
	uint64_t guard_filtered = 0, guard_lost = 0;

	injection_read(&e->inj, handler_watch_offset(i), &shared, sizeof(shared));
	if (e->guard)
		kernel_recorder_counts(e->guard, i, &guard_filtered, &guard_lost);
	*filtered = shared.filtered + guard_filtered;
	*lost = shared.lost + guard_lost;
}

uint64_t handler_counted(const struct engine *e, unsigned int i)
{
	const struct armed_watch *a = &e->watch[i];
	uint64_t own = a->self_tests + kernel_recorder_own(e->guard, i); /* first: the others go on */
	uint64_t all = a->disabled ? a->counted : perf_bp_count(&a->perf);

	return all > own ? all - own : 0;
}

/* What was dropped is the target's word: it cannot be more than was counted, without the @seen. */
static void believe(struct engine_counts *c, uint64_t seen)
{
	uint64_t left = c->counted > seen ? c->counted - seen : 0;

	if (c->filtered > left)
		c->filtered = left;
	if (c->lost_full > left - c->filtered)
		c->lost_full = left - c->filtered;
}

void handler_counts_of(const struct engine *e, unsigned int i, struct engine_counts *ret)
{
	const struct armed_watch *a = &e->watch[i];
	struct engine_counts c = { 0 };
	uint64_t known;

	handler_dropped(e, i, &c.filtered, &c.lost_full);
	c.recorded = e->intake.watch[i].recorded;
	c.has_counted = a->w.slot < 0;
	c.counted = handler_counted(e, i);
	c.counted -= e->intake.watch[i].steps;
	if (c.has_counted && !a->near_another)
		believe(&c, c.recorded + e->intake.watch[i].filtered);
	c.filtered += e->intake.watch[i].filtered;
	known = c.recorded + c.filtered + c.lost_full;
	/*
	 * An instruction that hits two watches raises one signal, and the handler, some time later, records
	 * both: the second one too if it was armed in between. The access was made, but not counted for it.
	 */
	if (!c.has_counted || (a->near_another && known > c.counted))
		c.counted = known;
	else if (c.counted > known)
		c.lost_merged = c.counted - known;
	*ret = c;
}

uint64_t handler_outstanding_at(const struct engine *e, unsigned int i)
{
	const struct armed_watch *a = &e->watch[i];
	uint64_t filtered, lost, known, counted;

	if (!a->armed || a->w.slot >= 0)
		return 0;
	handler_dropped(e, i, &filtered, &lost);
	known = e->intake.watch[i].seen + filtered + lost;
	counted = handler_counted(e, i);
	return counted > known ? counted - known : 0;
}

uint64_t handler_outstanding_of(const struct engine *e, uint32_t id)
{
	uint64_t sum = 0;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++) {
		const struct armed_watch *a = &e->watch[i];

		if (!a->armed || a->w.id != id)
			continue;
		if (a->w.slot >= 0)
			sum += monotonic_ns() - a->disabled_ns < UNCOUNTED_NS;
		else
			sum += handler_outstanding_at(e, i);
	}
	return sum;
}

uint64_t handler_outstanding(const struct engine *e)
{
	uint64_t sum = 0, known;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++)
		sum += handler_outstanding_at(e, i);
	known = kernel_recorder_suppressed(e->guard);
	return sum > known ? sum - known : 0;
}

struct wc_error *handler_report_causeless(struct engine *e, bool last)
{
	uint64_t n = 0;

	injection_read(&e->inj, offsetof(struct wire_control, causeless), &n, sizeof(n));
	return causeless_report(&e->causeless, n, last, e->intake.sink);
}
