#include "watchctl/target/stop/tracing.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/tracee.h"

#define SEIZE_PASSES 200
#define PASSING_NS 1000000000ull /* so long somebody who comes and goes all the time is outwaited */

static void describe_tracer(pid_t pid, char *buf, size_t len)
{
	proc_describe(pid, buf, len);
	if (!strncmp(buf, TRACING_DREGS_TRACER " ", sizeof(TRACING_DREGS_TRACER)))
		snprintf(buf, len, "another watchctl with --engine ptrace (process %d)", pid);
	else if (!strncmp(buf, TRACING_STEP_TRACER " ", sizeof(TRACING_STEP_TRACER)))
		snprintf(buf, len, "another watchctl step (process %d)", pid);
}

static const char *scope_text(int scope)
{
	switch (scope) {
	case 1:
		return "lets only a parent trace its children";
	case 2:
		return "lets only CAP_SYS_PTRACE trace";
	default:
		return "forbids all tracing until the next boot";
	}
}

int tracing_seize(pid_t pid, pid_t tid, long options)
{
	uint64_t end = monotonic_ns() + PASSING_NS;
	struct proc_status s;

	while (ptrace(PTRACE_SEIZE, tid, 0, options)) {
		int error = errno;

		if (error != EPERM || !proc_status_read(pid, tid, &s) || s.tracer || s.state == 'Z' ||
		    s.state == 'X' || !tracee_is_permitted(pid, tid) || monotonic_ns() > end)
			return error;
	}
	return 0;
}

struct wc_error *tracing_refused(pid_t pid, pid_t tid, int error, const char *instead)
{
	const char *or_instead = instead ? ", or " : "";
	struct proc_status s = { 0 };
	char who[96], tracer[96], text[16] = "";
	int scope = 0;

	proc_describe(pid, who, sizeof(who));
	if (proc_status_read(pid, tid, &s) && s.tracer) {
		describe_tracer(s.tracer, tracer, sizeof(tracer));
		return wc_error_new(
			WC_EPERM,
			"%s is already traced by %s, and a process can have only one tracer: end that one "
			"first%s%s",
			who, tracer, or_instead, instead ? instead : "");
	}
	scoped(fclosep) FILE *f = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	if (f && fgets(text, sizeof(text), f))
		scope = (int)strtol(text, NULL, 10);
	if (scope >= 3)
		return wc_error_new(
			WC_EPERM, "not permitted to trace %s: kernel.yama.ptrace_scope is %d, which %s%s%s",
			who, scope, scope_text(scope), instead ? ": " : "", instead ? instead : "");
	if (scope > 0)
		return wc_error_new(WC_EPERM,
				    "not permitted to trace %s: kernel.yama.ptrace_scope is %d, which %s "
				    "(run watchctl as "
				    "root, or sysctl kernel.yama.ptrace_scope=0)",
				    who, scope, scope_text(scope));
	return wc_error_errno(
		WC_EPERM, error,
		"not permitted to trace thread %d of %s: run watchctl as its owner or as root; in a container, "
		"CAP_SYS_PTRACE is needed",
		tid, who);
}

bool tracing_signal_is_ignored(pid_t pid, pid_t tid, int sig)
{
	struct proc_status s;

	return proc_status_read(pid, tid, &s) && (proc_ignored_signals(&s) & 1ull << (sig - 1));
}

void tracing_undo_false_eintr(pid_t pid, pid_t tid)
{
	struct user_regs_struct regs;

	if (!held_ptrace(PTRACE_GETREGS, tid, 0, &regs) && tracee_undo_false_eintr(pid, tid, &regs))
		held_ptrace(PTRACE_SETREGS, tid, 0, &regs);
}

void tracing_begin_call_again(pid_t pid, pid_t tid, struct user_regs_struct *regs)
{
	struct user_regs_struct here;

	if (!regs && !held_ptrace(PTRACE_GETREGS, tid, 0, &here))
		regs = &here;
	if (regs && tracee_begin_call_again(pid, tid, regs))
		held_ptrace(PTRACE_SETREGS, tid, 0, regs);
}

const char *tracing_begins_calls_again(pid_t pid)
{
	return proc_seccomp(pid)
		       ? "the process runs under seccomp: a poll, sleep or futex wait that watchctl interrupts "
			 "begins again, with its whole time-out"
		       : NULL;
}

struct wc_error *tracing_seize_all(pid_t pid, struct wc_error *(*seize)(void *ctx, pid_t tid, bool *ret_new),
				   void *ctx)
{
	struct wc_error *err = NULL;
	bool more = true;
	int pass;

	for (pass = 0; more && !err && pass < SEIZE_PASSES; pass++) {
		struct thread_ids ids;
		size_t i;

		more = false;
		if (!proc_threads(pid, &ids))
			break;
		for (i = 0; i < ids.n && !err; i++)
			err = seize(ctx, ids.v[i], &more);
		thread_ids_deinit(&ids);
	}
	return err;
}
