/*
 * The program's own SIGTRAP. The exception of a hit must not be missed by its thread: where that blocks the signal,
 * the kernel unblocks it, and makes the process's action the default (force_sig_info_to_task() in kernel/signal.c).
 * Both are put back before the thread goes on. Afterwards nobody can ask what the action was: so it is learned before
 * the first hit, and now and then.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/ptrace/ptrace_tracer.h"
#include "watchctl/target/inject/trap_known.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/debugreg.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/trap_mask.h"

#define LEARN_NS 50000000ull
#define HANDLER_STACK 32768u
/* Words of a signal frame, from what the handler returns to on: flags and link, 3 of the stack, 32 of the registers. */
#define FRAME_FLAGS 1u
#define FRAME_LINK 2u
#define FRAME_MASK 38u
#define UC_FLAGS 7u
#define MASK_NS 5000000ull

void trap_begin(struct tracer *k)
{
	struct proc_status s;

	if (!proc_status_read(k->pid, k->pid, &s))
		return;
	k->ignores_trap = s.ignored & PROC_SIGTRAP;
	k->catches_trap = s.caught & PROC_SIGTRAP;
	k->trap = k->box->trap;
	k->trap.looked_ns = k->trap.has_action ? monotonic_ns() : 0;
}

/*
 * What it returns to lies on its stack, and behind that a ucontext (struct rt_sigframe in the kernel's
 * arch/x86/include/asm/sigframe.h): flags, of which there are three, no link, and the mask that it returns to, whose
 * signals are all blocked by the handler as well. A struct sigaction on the stack, say, is none.
 */
static bool is_frame(const uint64_t *word, uint64_t mask)
{
	return word[FRAME_FLAGS] <= UC_FLAGS && !word[FRAME_LINK] && !(word[FRAME_MASK] & ~mask) &&
	       !(word[FRAME_MASK] & PROC_SIGTRAP);
}

/* In a signal handler whose mask has SIGTRAP, and that interrupted code which did not block it. */
static bool is_in_handler(const struct tracer *k, const struct traced *t, uint64_t mask)
{
	uint64_t word[HANDLER_STACK / sizeof(uint64_t)];
	struct user_regs_struct regs;
	size_t n, i;

	if (!k->trap.has_action || !k->trap.action.restorer || held_ptrace(PTRACE_GETREGS, t->tid, 0, &regs))
		return false;
	n = proc_read_some(t->tid, regs.rsp & ~7ull, word, sizeof(word)) / sizeof(word[0]);
	for (i = 0; i + FRAME_MASK < n; i++)
		if (word[i] == k->trap.action.restorer && is_frame(word + i, mask))
			return true;
	return false;
}

void trap_meet(struct tracer *k, struct traced *t)
{
	uint64_t mask;

	if (held_ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask) || !(mask & PROC_SIGTRAP) ||
	    is_in_handler(k, t, mask))
		return; /* a handler's mask is over with it */
	t->sigmask = mask;
	debugreg_write(t->tid, DEBUGREG_STATUS, 0); /* for trap_is_merged() */
}

static struct wc_error *open_call(struct tracer *k, const struct traced *t, struct stopped_call *ret)
{
	struct user_regs_struct regs;

	if (held_ptrace(PTRACE_GETREGS, t->tid, 0, &regs))
		return wc_error_new(WC_ETARGET, "thread %d is being killed", t->tid);
	return stopped_call_open(t->process->pid, t->tid, &regs, &k->gadgets, ret);
}

/* If the thread is killed on the way, so is the process: the kernel says so when nobody is left. */
static void learn(struct tracer *k, const struct traced *t)
{
	struct stopped_call c = { 0 };
	struct wc_error *err = open_call(k, t, &c);

	trap_known_learn(&k->trap, &c.remote, err);
	stopped_call_close(&c);
}

static void give_back(struct tracer *k, const struct traced *t)
{
	struct stopped_call c = { 0 };
	struct wc_error *err;

	if (!k->trap.has_action)
		return;
	err = open_call(k, t, &c);
	trap_known_give_back(&k->trap, &c.remote, err);
	stopped_call_close(&c);
}

static void report_no_handler(struct tracer *k, pid_t tid, const char *why)
{
	struct proc_status s;

	if (!k->catches_trap || k->trap.has_action || k->reported_handler ||
	    !proc_status_read(k->pid, tid, &s) || (s.caught & PROC_SIGTRAP) || s.state == 'Z' ||
	    s.state == 'X')
		return;
	k->reported_handler = true;
	tracer_note(k,
		    "process %d no longer has a SIGTRAP handler, so that its own SIGTRAP would kill it: %s",
		    k->pid, why);
}

void trap_look_for_handler(struct tracer *k, pid_t tid)
{
	report_no_handler(
		k, tid,
		"it removed the handler, or accessed the variable while SIGTRAP was blocked (for example "
		"inside that handler), which makes the kernel remove it");
}

/* It has, or had, one that a hit may have removed. */
static bool may_lack_handler(const struct tracer *k, const struct traced *t)
{
	return k->catches_trap && k->trap.has_action && t->process->pid == k->pid;
}

/*
 * A thread that runs, and does not block it, has unblocked it itself: one that was hit stands still until its mask is
 * what it was. Afterwards, when the handler is there again, that could not be told any more.
 */
static void look_at_mask(struct tracer *k, struct traced *t)
{
	struct proc_status s;

	if (k->trap.looked_ns - t->sigmask_ns < MASK_NS)
		return;
	t->sigmask_ns = k->trap.looked_ns;
	if (t->sigmask && !t->stopped && !t->put_aside && !t->requeued &&
	    proc_status_read(t->process->pid, t->tid, &s) && !(s.blocked & PROC_SIGTRAP) &&
	    proc_status_read(t->process->pid, t->tid, &s) && s.state != 't')
		t->sigmask = 0;
}

/* A status read for every hit is what programs pay that have a handler; the others pay for one now and then. */
static void look(struct tracer *k, struct traced *t)
{
	uint64_t now = monotonic_ns();
	bool due = now - k->trap.looked_ns > LEARN_NS;
	struct proc_status s;

	if (t->process->pid != k->pid || (!k->trap.has_action && !due) ||
	    !proc_status_read(k->pid, t->tid, &s))
		return;
	if (s.caught & PROC_SIGTRAP) {
		k->catches_trap = true;
		if (due)
			learn(k, t);
	} else {
		k->trap.looked_ns = now;
		if (k->trap.has_action)
			threads_each(k, look_at_mask);
		give_back(k, t);
	}
}

void trap_keep(struct tracer *k, struct traced *t)
{
	bool blocked =
		trap_mask_restore(t->process->pid, t->tid, k->trap.given_back != t->given_back, &t->sigmask);

	look(k, t);
	if (t->sigmask)
		debugreg_write(t->tid, DEBUGREG_STATUS, 0); /* for trap_is_merged() */
	if (blocked)
		report_no_handler(k, t->tid,
				  "a thread that blocks SIGTRAP has accessed the variable, which makes the "
				  "kernel remove it");
}

/* When it goes on, it gets the signal that it stands at once more, blocked, so that it waits. @mask: its own. */
static bool requeue(struct traced *t, uint64_t mask)
{
	uint64_t with_trap = mask | PROC_SIGTRAP;

	if (held_ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(with_trap), &with_trap) ||
	    ptrace(PTRACE_INTERRUPT, t->tid, 0, 0))
		return false; /* it is being killed */
	t->interrupted = t->requeued = true;
	t->borrowed_mask = mask;
	t->signal = SIGTRAP;
	return true;
}

static bool any_fired(uint64_t dr6)
{
	unsigned int slot;

	for (slot = 0; slot < DREGS && !dregs_fired(dr6, slot); slot++)
		;
	return slot < DREGS;
}

/*
 * What has unblocked it was a hit, if DR6 shows one since the last; and has removed the handler, if there was one.
 * Else it was the thread itself.
 */
bool trap_is_merged(const struct tracer *k, struct traced *t, const siginfo_t *info)
{
	struct proc_status s;
	uint64_t mask, dr6;

	if (info->si_code > 0 || !t->sigmask || held_ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask) ||
	    (mask & PROC_SIGTRAP))
		return false;
	if ((mask | PROC_SIGTRAP) == t->sigmask && debugreg_read(t->tid, DEBUGREG_STATUS, &dr6) &&
	    any_fired(dr6) && proc_status_read(t->process->pid, t->tid, &s) &&
	    (!(s.caught & PROC_SIGTRAP) || k->trap.given_back != t->given_back))
		return true;
	t->sigmask = 0;
	return false;
}

void trap_requeue(struct traced *t)
{
	requeue(t, t->sigmask);
}

static bool waits_for_handler(struct tracer *k, struct traced *t)
{
	struct proc_status s;
	uint64_t mask;

	return proc_status_read(k->pid, t->tid, &s) && !(s.caught & PROC_SIGTRAP) &&
	       !held_ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask) && requeue(t, mask);
}

bool trap_deliver(struct tracer *k, struct traced *t, int sig)
{
	bool alone = t->process->nthreads == 1;

	if (!may_lack_handler(k, t))
		return false;
	if (!alone)
		threads_stop_others(k, t);
	if (waits_for_handler(k, t))
		return true;
	if (alone || t->holds || ptrace(PTRACE_INTERRUPT, t->tid, 0, 0))
		return false;
	t->interrupted = true;
	t->signal = sig;
	threads_go_on(k, t);
	threads_wait_for(k, t);
	return true;
}

void trap_requeue_ends(struct traced *t)
{
	if (t->requeued)
		held_ptrace(PTRACE_SETSIGMASK, t->tid, sizeof(t->borrowed_mask), &t->borrowed_mask);
	t->requeued = false;
}

void trap_requeued(struct tracer *k, struct traced *t)
{
	if (may_lack_handler(k, t))
		give_back(k, t);
	trap_requeue_ends(t);
	trap_look_for_handler(k, t->tid);
}

bool trap_was_ignored(const struct tracer *k, const struct traced *t)
{
	struct proc_status s;
	siginfo_t info;

	/*
	 * What the processor raises kills even where it is ignored. What is sent is not passed on even where
	 * it is still ignored: the first hit, of any thread, may come before the kernel looks.
	 */
	return k->ignores_trap && !held_ptrace(PTRACE_GETSIGINFO, t->tid, 0, &info) && info.si_code <= 0 &&
	       proc_status_read(t->process->pid, t->tid, &s) && !(s.caught & PROC_SIGTRAP);
}
