/*
 * What a hit makes the kernel forget. An int3, or a single step, of a thread that blocks SIGTRAP shall kill, so the
 * kernel unblocks the signal and makes its action the default (force_sig_info_to_task() in kernel/signal.c); for us
 * it stops the thread, all the same. Afterwards nobody can ask what had been set: so it is learned before that.
 *
 *	the action	when we come; now and then, at hits; and before code that blocks SIGTRAP runs, where that can
 *			be seen: at the first instruction of a signal handler
 *	the mask	when a thread is seen for the first time, and at that instruction
 */
#include <signal.h>
#include <sys/ptrace.h>

#include "watchctl/base/clock.h"
#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/inject/trap_known.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"

#define LOOK_NS 50000000ull
#define FRESH_NS 5000000ull
#define HANDLER_STACK_MAX (8ull << 20)

void step_trap_init(struct step_tracer *k, const struct proc_status *s)
{
	k->ignores_trap = s->ignored & PROC_SIGTRAP;
	k->catches_trap = s->caught & PROC_SIGTRAP;
	k->trap = k->box->trap;
	k->trap.looked_ns = monotonic_ns();
}

/* @t stands still, and not at a signal that it is still to get. */
static void learn(struct step_tracer *k, struct step_thread *t)
{
	struct stopped_call c;
	struct wc_error *err = step_remote_open(k, t, &c);

	trap_known_learn(&k->trap, &c.remote, err);
	step_remote_close(k, t, &c);
}

/*
 * A program that resets the action itself, and leaves flags and mask as they were, gets its handler back, too: what
 * removed it cannot be told, and the default would end it.
 */
static bool give_back(struct step_tracer *k, struct step_thread *t)
{
	struct stopped_call c;
	struct wc_error *err;
	bool done;

	if (!k->trap.has_action)
		return false;
	err = step_remote_open(k, t, &c);
	done = trap_known_give_back(&k->trap, &c.remote, err);
	step_remote_close(k, t, &c);
	return done;
}

void step_trap_look(struct step_tracer *k, struct step_thread *t)
{
	uint64_t now = monotonic_ns();
	struct proc_status s;

	if (now - k->trap.looked_ns < LOOK_NS || t->guest)
		return;
	k->trap.looked_ns = now;
	if (!proc_status_read(t->pid, t->tid, &s))
		return;
	if (s.caught & PROC_SIGTRAP) {
		k->catches_trap = true;
		learn(k, t);
	} else {
		give_back(k, t);
	}
}

static void give_back_or_report(struct step_tracer *k, struct step_thread *t)
{
	if (!k->catches_trap || give_back(k, t) || k->reported_handler)
		return;
	k->reported_handler = true;
	step_report_note(
		k,
		"thread %d blocked SIGTRAP when it hit a breakpoint, which made the kernel remove the program's "
		"SIGTRAP handler",
		t->tid);
}

/* Its own handler is still running; or returns, by way of what the kernel has put below the interrupted stack. */
static bool is_in_handler(struct step_thread *t)
{
	const uint64_t top = t->handler_sp + 8;

	return step_threads_load(t) && t->user.rsp <= top && top - t->user.rsp < HANDLER_STACK_MAX;
}

/*
 * A mask that lacks just SIGTRAP may be the thread's own doing. A handler that is still there shows that: with SIGTRAP
 * blocked, the hit would have removed it; unless it has been given back since then, for another thread.
 */
static bool has_unblocked(const struct step_tracer *k, const struct step_thread *t)
{
	struct proc_status s;

	return k->trap.given_back == t->given_back && proc_status_read(t->pid, t->tid, &s) &&
	       (s.caught & PROC_SIGTRAP);
}

/* The hit has unblocked SIGTRAP, and it is blocked again. */
static bool block_again(const struct step_tracer *k, struct step_thread *t)
{
	uint64_t now;

	if (!t->sigmask || held_ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(now), &now))
		return false;
	if ((now | PROC_SIGTRAP) == t->sigmask && (t->handler_sp ? is_in_handler(t) : !has_unblocked(k, t)))
		return !held_ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(t->sigmask), &t->sigmask);
	t->sigmask = t->outer_mask; /* its handler has returned, or it has set another one */
	t->outer_mask = t->handler_sp = 0;
	return false;
}

void step_trap_restore(struct step_tracer *k, struct step_thread *t)
{
	const uint64_t outer = t->outer_mask;

	if (block_again(k, t) || (outer && block_again(k, t)))
		give_back_or_report(k, t);
}

static bool has_lost_handler(const struct step_tracer *k)
{
	struct proc_status s;

	return k->catches_trap && proc_status_read(k->pid, k->vm_tid, &s) && !(s.caught & PROC_SIGTRAP) &&
	       s.state != 'Z' && s.state != 'X';
}

bool step_trap_gathers(const struct step_tracer *k)
{
	return (k->ignores_trap || k->trap.has_action) && !k->may_leave;
}

void step_trap_leave(struct step_tracer *k, struct step_thread *t)
{
	if (has_lost_handler(k))
		give_back(k, t);
}

void step_trap_report_lost(struct step_tracer *k)
{
	if (k->trap.has_action || k->reported_handler || !has_lost_handler(k))
		return;
	k->reported_handler = true;
	step_report_note(
		k,
		"process %d no longer has a SIGTRAP handler: it has removed that, or a breakpoint in code that runs "
		"while SIGTRAP is blocked made the kernel remove it; the next SIGTRAP that it gets ends it. --only "
		"records functions that do not run in signal handlers",
		k->pid);
}

/* Signal handlers */

void step_trap_before_signal(struct step_tracer *k, struct step_thread *t, int sig)
{
	struct proc_status s;

	t->entering = false;
	if (t->guest || !proc_status_read(t->pid, t->tid, &s) || !(s.caught >> (sig - 1) & 1))
		return;
	k->catches_trap |= (s.caught & PROC_SIGTRAP) != 0;
	if (!((s.caught | s.blocked) & PROC_SIGTRAP))
		return; /* nothing can be forgotten */
	if (ptrace(PTRACE_INTERRUPT, t->tid, 0, 0))
		return;
	t->interrupted = t->entering = true;
	t->outer_mask = (s.blocked & PROC_SIGTRAP) ? s.blocked : 0;
}

void step_trap_at_handler(struct step_tracer *k, struct step_thread *t)
{
	uint64_t mask;

	t->entering = false;
	if (held_ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask) || !(mask & PROC_SIGTRAP))
		return;
	t->sigmask = mask;
	t->handler_sp = step_threads_load(t) ? t->user.rsp : 0;
	if (k->catches_trap && (!k->trap.has_action || monotonic_ns() - k->trap.looked_ns > FRESH_NS))
		learn(k, t);
}

/* Its own SIGTRAP waits, blocked */

static bool was_unblocked(const struct step_thread *t)
{
	uint64_t mask;

	return t->sigmask && !held_ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask) &&
	       !(mask & PROC_SIGTRAP) && (mask | PROC_SIGTRAP) == t->sigmask;
}

bool step_trap_is_merged(struct step_tracer *k, struct step_thread *t)
{
	uint32_t number;

	if (t->info.si_signo != SIGTRAP || t->info.si_code > 0 || !was_unblocked(t))
		return false;
	switch (t->moving) {
	case MOVING_COPY:
		return t->user.rip != t->copy;
	case MOVING_LIFT:
		return t->user.rip != k->brk[t->under].address;
	case MOVING_NOT:
		break;
	}
	return t->stepping || (step_breaks_find(k, t->user.rip - 1, &number) && k->breaks[number].known);
}

/* @mask, which blocks it. */
static bool requeue(struct step_thread *t, uint64_t mask)
{
	if (held_ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(mask), &mask) ||
	    ptrace(PTRACE_INTERRUPT, t->tid, 0, 0))
		return false; /* it is being killed */
	t->interrupted = t->requeued = true;
	t->signal = SIGTRAP;
	return true;
}

void step_trap_requeue(struct step_thread *t)
{
	requeue(t, t->sigmask);
}

bool step_trap_waits_for_handler(struct step_tracer *k, struct step_thread *t)
{
	struct proc_status s;
	uint64_t mask;

	if (!k->trap.has_action || t->guest || !proc_status_read(t->pid, t->tid, &s) ||
	    (s.caught & PROC_SIGTRAP) || held_ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask) ||
	    !requeue(t, mask | PROC_SIGTRAP))
		return false;
	t->borrowed = true;
	t->borrowed_mask = mask;
	return true;
}

void step_trap_requeued(struct step_tracer *k, struct step_thread *t)
{
	t->requeued = false;
	give_back_or_report(k, t);
	if (!t->borrowed)
		return;
	t->borrowed = false;
	held_ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(t->borrowed_mask), &t->borrowed_mask);
}
