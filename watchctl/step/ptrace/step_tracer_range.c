/* Occurrences of the range: what begins and ends with them. */
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "watchctl/base/clock.h"
#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/proc/proc.h"

bool step_range_includes(const struct step_tracer *k, const struct step_thread *t,
			 const struct step_thread *creator)
{
	pid_t first = k->range.tid ? k->range.tid : k->pid;

	if (t->guest)
		return false;
	switch ((enum stepper_threads)k->box->threads) {
	case STEPPER_THREADS_ALL:
		return true;
	case STEPPER_THREADS_ONE:
		return t->tid == first;
	case STEPPER_THREADS_RANGE:
		return t->tid == first || (creator && creator->recorded);
	}
	return false;
}

static void include(struct step_tracer *k, struct step_thread *t)
{
	t->recorded = k->recording && step_range_includes(k, t, NULL);
	t->fresh = false;
}

static void report_range(struct step_tracer *k, struct step_thread *t, pid_t tid, enum range_what what)
{
	struct step_record r = { .kind = STEP_RANGE, .tid = tid, .range_what = what };

	r.occurrence = k->range.occurrence;
	if (t)
		step_report_of(k, t, &r);
	else
		step_report(k, &r);
}

static void step_tracer_range_begin(struct step_tracer *k, struct step_thread *t)
{
	step_deep_restore(k);
	k->recording = k->range.state == RANGE_INSIDE;
	k->entries = 0;
	k->last_ns = monotonic_ns();
	if (k->recording) {
		k->box->counts.occurrences++;
		step_written_begin(k);
		step_threads_each(k, include);
		if (t)
			t->fresh = true;
		report_range(k, t, t ? t->tid : k->pid, RANGE_BEGIN);
	}
	step_breaks_sync(k);
}

void step_range_start(struct step_tracer *k)
{
	range_init(&k->range, &k->box->range);
	if (k->range.state == RANGE_OUTSIDE)
		step_breaks_sync(k);
	else
		step_tracer_range_begin(k, NULL);
}

static void end_calls(struct step_tracer *k, enum return_how how)
{
	const struct track_end *ended;
	const pid_t *tids;
	size_t n, i;

	if (step_report_failed(k, track_end_all(k->track, how, &ended, &tids, &n)))
		return;
	for (i = 0; i < n; i++) {
		struct step_thread *t = step_threads_find(k, tids[i]);
		struct track_call call = ended[i].call;
		struct step_record r = { .kind = STEP_RETURN, .call = &call, .how = ended[i].how };

		if (!step_hit_is_reported(k, &call))
			continue;
		r.point = call.point;
		r.pid = t ? t->pid : k->pid;
		r.tid = tids[i];
		step_report(k, &r);
	}
}

static void report_done(struct step_tracer *k)
{
	struct step_record r = { .kind = STEP_DONE };

	if (k->done)
		return;
	k->done = true;
	step_breaks_sync(k);
	step_trap_report_lost(k);
	step_report(k, &r);
	step_tracer_leave(k);
}

static void count_ends(struct step_tracer *k)
{
	k->box->counts.from_seen = k->range.from_seen;
	k->box->counts.to_seen = k->range.to_seen;
}

/* What is awaited only while an occurrence lasts. */
static void forget_returns(struct step_tracer *k)
{
	uint32_t i;

	for (i = 0; i < k->box->nbreaks; i++)
		k->brk[i].use &= ~(BREAK_RETURN | BREAK_HOME);
}

/* The occurrence is over, and k->range knows. */
static void step_tracer_range_end(struct step_tracer *k, struct step_thread *t, enum range_what what)
{
	k->from_tid = 0;
	if (k->recording && what != RANGE_STUCK)
		report_range(k, t, t ? t->tid : k->pid, what);
	if (k->recording)
		end_calls(k, RETURN_NEVER);
	k->recording = false;
	forget_returns(k);
	if (k->range.state == RANGE_DONE && !k->exiting)
		report_done(k);
	else
		step_breaks_sync(k);
}

void step_range_at_from(struct step_tracer *k, struct step_thread *t, uint32_t point)
{
	uint64_t return_address;
	uint32_t number;
	bool begins = range_at_from(&k->range, t->tid, t->user.rsp);

	count_ends(k);
	if (!begins)
		return;
	/* Its return is awaited by itself: A need not be a function that is recorded. */
	if (k->point[point].is_function && k->box->range.from_is_function &&
	    step_state_read(k, t->user.rsp, &return_address, 8) &&
	    !step_report_failed(k, step_breaks_add(k, return_address, BREAK_RETURN, &number))) {
		k->from_tid = t->tid;
		k->from_sp = t->user.rsp;
		k->from_return = return_address;
	}
	step_tracer_range_begin(k, t);
}

void step_range_at_to(struct step_tracer *k, struct step_thread *t)
{
	bool ends = range_at_to(&k->range, t->tid);

	count_ends(k);
	if (ends)
		step_tracer_range_end(k, t, RANGE_REACHED);
}

void step_range_from_ended(struct step_tracer *k, struct step_thread *t)
{
	k->from_tid = 0;
	if (range_from_ended(&k->range, t->tid, k->from_sp))
		step_tracer_range_end(k, t, RANGE_RETURNED);
}

void step_range_cut(struct step_tracer *k, struct step_thread *t, enum range_what what)
{
	if (k->done || k->ended || !k->started)
		return;
	if (range_cut(&k->range))
		step_tracer_range_end(k, t, what);
	if (what == RANGE_STOPPED)
		report_done(k);
}

void step_range_thread_ended(struct step_tracer *k, struct step_thread *t)
{
	if (!k->ended && range_thread_ended(&k->range, t->tid))
		step_tracer_range_end(k, t, RANGE_EXITED);
}

void step_range_over(struct step_tracer *k, pid_t tid, enum range_what what, enum return_how how)
{
	if (!k->recording)
		return;
	end_calls(k, how);
	report_range(k, NULL, tid, what);
	k->recording = false;
}

/* Nothing more happens */

static void stop_one(struct step_tracer *k, struct step_thread *t)
{
	if (!t->guest)
		step_threads_interrupt(k, t);
}

static void report_blocked(struct step_tracer *k, struct step_thread *t)
{
	const struct track_call *in = track_innermost(k->track, t->tid);
	struct step_record r = { .kind = STEP_BLOCKED, .inside = in ? in->call : 0, .syscall = -1 };

	if (!t->recorded || !(t->stopped || t->aside) || !step_threads_load(t))
		return;
	step_state_regs(t, &r.regs);
	/* It was in that system call when we stopped it, and goes back there. */
	if ((long)t->user.orig_rax >= 0)
		r.syscall = (int32_t)t->user.orig_rax;
	r.stack_len = (uint32_t)step_state_copy(k, r.regs.r[WREG_RSP], k->stack, k->box->stack_bytes & ~7u);
	r.stack = r.stack_len ? k->stack : NULL;
	step_report_of(k, t, &r);
}

/* A thread that waits for the owner is not stuck. */
static void look_for_waiting(struct step_tracer *k, struct step_thread *t)
{
	if (t->holds & (HOLD_PLAN | HOLD_MODULES))
		k->last_ns = monotonic_ns();
}

static bool is_stuck(const struct step_tracer *k)
{
	return monotonic_ns() - k->last_ns >= k->box->stuck_ns;
}

void step_range_check_stuck(struct step_tracer *k)
{
	if (!k->box->stuck_ns || !k->recording || k->leaving || !is_stuck(k))
		return;
	step_threads_each(k, look_for_waiting);
	if (!is_stuck(k))
		return;
	report_range(k, NULL, k->range.tid ? k->range.tid : k->pid, RANGE_STUCK);
	step_threads_each(k, stop_one);
	step_move_wait_for_all(k);
	step_threads_each(k, report_blocked);
	range_cut(&k->range);
	step_tracer_range_end(k, NULL, RANGE_STUCK);
}
