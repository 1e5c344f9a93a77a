#include <errno.h>
#include <linux/kcmp.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/vec.h"
#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/tracing.h"

static long options(void)
{
	return PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
	       PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
}

static struct wc_error *seize_one(void *ctx, pid_t tid, bool *ret_new)
{
	struct step_tracer *k = ctx;
	struct step_thread *t;
	struct proc_status s;
	int error;

	if (step_threads_find(k, tid))
		return NULL;
	error = tracing_seize(k->pid, tid, options());
	if (error) {
		if (error == ESRCH || !proc_status_read(k->pid, tid, &s) || s.state == 'Z' || s.state == 'X')
			return NULL;
		/* Born since we began, of a thread that is ours already: then so is it. */
		return s.tracer == getpid() ? NULL : tracing_refused(k->pid, tid, error, NULL);
	}
	*ret_new = true;
	t = step_threads_add(k, k->pid, tid);
	if (!t)
		return &wc_enomem;
	t->born = t->met = true;
	if (proc_status_read(k->pid, tid, &s) && (s.blocked & PROC_SIGTRAP))
		t->sigmask = s.blocked;
	if (k->box->held)
		t->holds |= HOLD_START;
	return NULL;
}

struct wc_error *step_births_seize(struct step_tracer *k)
{
	struct wc_error *err = tracing_seize_all(k->pid, seize_one, k);

	if (!err && !k->nthreads)
		err = wc_error_new(WC_ETARGET, "process %d ended while it was being traced", k->pid);
	return err;
}

static bool shares_memory(const struct step_tracer *k, pid_t tid)
{
	return !syscall(SYS_kcmp, tid, k->vm_tid, KCMP_VM, 0, 0);
}

/* A process of its own, with a copy of our breakpoints: it goes without. */
static void let_child_go(struct step_tracer *k, pid_t child)
{
	step_breaks_clean_child(k, child);
	held_ptrace(PTRACE_DETACH, child, 0, 0);
}

struct step_thread *step_births_meet(struct step_tracer *k, pid_t tid)
{
	struct step_thread *t;
	struct proc_status s;

	if (!proc_status_read(tid, tid, &s))
		return NULL;
	if (s.tgid != k->pid && !shares_memory(k, tid)) {
		let_child_go(k, tid);
		return NULL;
	}
	t = step_threads_add(k, s.tgid, tid);
	if (!t)
		return NULL;
	t->guest = s.tgid != k->pid;
	t->born = t->guest;
	return t;
}

static void know_creator(struct step_tracer *k, struct step_thread *t, const struct step_thread *creator)
{
	const struct track_call *in = track_innermost(k->track, creator->tid);

	t->born = true;
	t->creator = creator->tid;
	t->creating_call = in ? in->call : 0;
	t->outer_mask = creator->sigmask; /* it begins with all blocked, and gets this one then */
	t->fresh = k->recording;
	t->recorded = k->recording && step_range_includes(k, t, creator);
	t->holds &= ~(unsigned int)HOLD_BIRTH;
}

/* Its first stop may be long in coming, on a machine that is busy; or it has been met, and let go. */
static void expect(struct step_tracer *k, pid_t child)
{
	struct proc_status s;

	if (proc_status_read(child, child, &s) && s.tracer == getpid() &&
	    !vec_push(k->unborn.v, k->unborn.n, k->unborn.cap, child))
		step_report_note(k,
				 "no memory: process %d, just forked, may still have breakpoints of watchctl",
				 child);
}

void step_births_met(struct step_tracer *k, pid_t child)
{
	size_t i;

	for (i = 0; i < k->unborn.n; i++)
		if (k->unborn.v[i] == child)
			k->unborn.v[i--] = k->unborn.v[--k->unborn.n];
}

bool step_births_expected(struct step_tracer *k)
{
	struct proc_status s;
	size_t i, n = 0;

	for (i = 0; i < k->unborn.n; i++)
		if (proc_status_read(k->unborn.v[i], k->unborn.v[i], &s) && s.tracer == getpid())
			k->unborn.v[n++] = k->unborn.v[i];
	k->unborn.n = n;
	return n;
}

static void report_fork(struct step_tracer *k, struct step_thread *t, pid_t child)
{
	struct step_record r = { .kind = STEP_FORK, .child = child };

	if (k->recording && t->recorded)
		step_report_of(k, t, &r);
}

void step_births_on_clone(struct step_tracer *k, struct step_thread *t)
{
	unsigned long child = 0;
	struct step_thread *made;
	struct proc_status s;

	if (held_ptrace(PTRACE_GETEVENTMSG, t->tid, 0, &child) || !child || t->guest)
		return;
	made = step_threads_find(k, (pid_t)child);
	if (!made && proc_status_read((pid_t)child, (pid_t)child, &s) && s.tgid == k->pid) {
		made = step_threads_add(k, k->pid, (pid_t)child); /* its first stop is still to come */
		if (!made)
			return;
	}
	if (!made)
		expect(k, (pid_t)child);
	if (!made || made->guest) {
		report_fork(k, t, (pid_t)child);
		return;
	}
	know_creator(k, made, t);
	if (!made->stopped || !made->met)
		return;
	if (made->recorded && step_threads_load(made))
		step_report_thread(k, made);
	step_threads_settle(k, made);
}
