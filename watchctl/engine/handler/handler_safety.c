/*
 * handler_safety - whether the handler may be put into a program, and whether it may stay. What it refuses
 * would end the program by a signal or a system call of ours, or take one of its own away from it.
 */
#include <stdio.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/task.h"
#include "watchctl/engine/handler/handler_engine.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/process_fd.h"
#include "watchctl/target/proc/trap_block.h"
#include "watchctl/target/proc/takes_trap.h"
#include "watchctl/target/stop/dispatch.h"

#define SANDBOX_NS 500000000ull /* how often it looks whether any thread has put itself under seccomp */
#define END_MS 20
#define ASK_NS 500000000ull	 /* how often it may stop a thread to ask whether the handler is still ours */
#define BUSY_LOOKS 4		 /* in a row that find more missing, where hits arrive */
#define ASK_SOON_NS 100000000ull /* ... where a thread blocks SIGTRAP, and may take our signals */

struct wc_error *handler_refuse_unsafe(pid_t pid)
{
	struct proc_status s;
	pid_t waiter;
	int seccomp;

	if (!proc_status_read(pid, task_with_memory(pid), &s))
		return wc_error_new(WC_ETARGET, "process %d ended", pid);
	seccomp = proc_seccomp(pid);
	if (seccomp)
		return wc_error_new(WC_ENOTSUP,
				    "process %d (%s) runs under %s: it may be killed for the system calls of "
				    "the handler, so the handler engine is refused; choose --engine ring or "
				    "ptrace",
				    pid, s.name, seccomp == 1 ? "seccomp's strict mode" : "a seccomp filter");
	if (s.shadow_stack)
		return wc_error_new(
			WC_ENOTSUP,
			"process %d (%s) runs with a shadow stack: the handler cannot be placed without breaking that "
			"protection; choose --engine ring or ptrace",
			pid, s.name);
	if (dispatch_find(pid))
		return wc_error_new(
			WC_ENOTSUP,
			"process %d (%s) dispatches system calls itself (syscall user dispatch, as Wine does): it "
			"could be killed by SIGSYS for the handler's system calls, so the handler engine is refused; "
			"choose --engine ring",
			pid, s.name);
	waiter = trap_find_waiter(pid);
	if (waiter)
		return wc_error_new(
			WC_ENOTSUP,
			"thread %d of process %d (%s) blocks SIGTRAP and waits for it (sigwait): it would receive watchctl's "
			"signals as its own, so the handler engine is refused; choose --engine ring or ptrace",
			waiter, pid, s.name);
	return NULL;
}

/* Nothing has run yet that could install one; the guard, where there is one, keeps our signals from it. */
struct wc_error *handler_refuse_taker(const struct engine *e)
{
	const char *what = e->guard || !e->options.held ? NULL : takes_trap(e->pid);

	if (!what)
		return NULL;
	return wc_error_new(
		WC_ENOTSUP,
		"the program's %s installs its own SIGTRAP handler when it starts, which would receive watchctl's "
		"signals and end the program (the guard against this needs CAP_BPF and CAP_PERFMON): choose --engine "
		"ring or ptrace, or attach when the program is running",
		what);
}

/* The guard knows at the first hit, and lets no signal pass; without it, it must be looked for. */
static bool is_sandboxed(struct engine *e, const struct proc_status *leader)
{
	uint64_t now = monotonic_ns();

	if (leader->seccomp || kernel_recorder_sandboxed(e->guard))
		return true;
	if (now - e->sandbox_ns < SANDBOX_NS)
		return false;
	e->sandbox_ns = now;
	return proc_seccomp(e->pid);
}

/*
 * The guard knows at the first hit. Without it, that a program has begun to catch SIGSYS is the only thing
 * that reports without stopping it.
 */
static bool is_dispatching(const struct engine *e)
{
	if (e->guard)
		return kernel_recorder_dispatching(e->guard);
	return !e->caught_sigsys && dispatch_is_possible(e->pid);
}

static void report_replaced(struct engine *e)
{
	e->replaced = true;
	snprintf(
		e->why, sizeof(e->why),
		"process %d has installed its own SIGTRAP handler: later hits were not recorded, and that handler "
		"received their signals (the guard against this needs CAP_BPF and CAP_PERFMON)",
		e->pid);
}

/* Programs that catch SIGSYS because they catch every signal have replaced our handler as well. */
static void report_dispatching(struct engine *e)
{
	bool installed = true;

	if (!e->guard)
		wc_error_free(inject_is_installed(&e->inj, &installed));
	if (!installed)
		report_replaced(e);
	else if (e->guard || dispatch_find(e->pid))
		snprintf(
			e->why, sizeof(e->why),
			"process %d has begun to dispatch system calls itself (syscall user dispatch): a system call "
			"of the handler could end it by SIGSYS",
			e->pid);
	else
		snprintf(
			e->why, sizeof(e->why),
			"process %d has begun to catch SIGSYS, as programs do before they dispatch system calls "
			"themselves (Wine): a system call of the handler could then end it; choose --engine ring",
			e->pid);
}

/* A SIGTRAP of its own that ends the program: our handler sets the default action for that, and raises it. */
static bool is_about_to_end(const struct engine *e)
{
	return proc_is_ending(e->pid, e->pid) || process_fd_ended(e->pidfd, END_MS);
}

void handler_check_safety(struct engine *e)
{
	struct proc_status s;

	if (e->intake.corrupt && !e->why[0])
		snprintf(e->why, sizeof(e->why),
			 "process %d wrote into the event buffer: the buffer cannot be read any further",
			 e->pid);

	if (stuck_why(&e->intake.stuck) && !e->why[0])
		snprintf(e->why, sizeof(e->why), "process %d %s: choose --engine ring", e->pid,
			 stuck_why(&e->intake.stuck));
	if (e->why[0] || !proc_status_read(e->pid, e->pid, &s))
		return;
	if (handler_memory_state(e) == MEMORY_BARRED)
		snprintf(
			e->why, sizeof(e->why),
			"process %d no longer permits this user to trace it: it has made itself undumpable, or "
			"executed a program with other privileges",
			e->pid);
	else if (kernel_recorder_suppressed(e->guard))
		snprintf(
			e->why, sizeof(e->why),
			"process %d has installed its own SIGTRAP handler: later hits were counted but not recorded, "
			"and that handler received none of their signals (some runtimes do this when they start, for "
			"example Go): attach later, or choose --engine ring",
			e->pid);
	else if (!(s.caught & PROC_SIGTRAP) && !is_about_to_end(e))
		snprintf(e->why, sizeof(e->why),
			 "process %d has removed watchctl's SIGTRAP handler: another hit could kill the "
			 "process",
			 e->pid);
	else if (is_sandboxed(e, &s))
		snprintf(
			e->why, sizeof(e->why),
			"process %d has put itself under seccomp: a system call of the handler could kill it",
			e->pid);
	else if (is_dispatching(e))
		report_dispatching(e);
}

/*
 * Hits are counted and nothing arrives. Without the guard, a program that puts its own handler in place of
 * ours gets our signals until somebody notices: it is asked. Or a thread blocks them. Where others arrive meanwhile,
 * some are always under way: then more are missing at each of several looks.
 */
struct wc_error *handler_check_missing(struct engine *e, uint64_t now, bool idle)
{
	uint64_t missing = e->why[0] ? 0 : handler_outstanding(e);
	bool installed = true;

	e->grown = missing > e->missing ? e->grown + 1 : 0;
	e->missing = missing;
	if (e->grown < (idle ? 1 : BUSY_LOOKS) || now - e->asked_ns < (e->blocked.tid ? ASK_SOON_NS : ASK_NS))
		return NULL;
	e->asked_ns = now;
	if (!e->guard)
		wc_error_free(inject_is_installed(&e->inj, &installed));
	if (installed)
		return handler_look_for_blockers(e);
	report_replaced(e);
	return NULL;
}
