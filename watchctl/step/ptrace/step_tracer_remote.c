/* A thread that stands still makes a system call for us (target/inject/remote.h), and stands where it stood. */
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"

/* Others than last time, where a breakpoint is in those now: in what signal handlers return to, for example. */
static struct wc_error *find_gadgets(struct step_tracer *k)
{
	struct proc_status s;
	struct wc_error *err;

	if (k->has_gadgets && gadgets_are_there(k->vm_tid, &k->gadgets))
		return NULL;
	k->has_gadgets = false;
	if (!proc_status_read(k->pid, k->vm_tid, &s) || s.seccomp)
		return wc_error_new(WC_ENOTSUP, "the program runs under seccomp");
	err = gadgets_find(k->vm_tid, &k->gadgets);
	k->has_gadgets = !err;
	return err;
}

struct wc_error *step_remote_open(struct step_tracer *k, struct step_thread *t, struct step_remote *ret)
{
	struct wc_error *err = find_gadgets(k);

	memset(ret, 0, sizeof(*ret));
	if (err)
		return err;
	if (!step_threads_load(t) || !step_threads_store(t) ||
	    held_ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(ret->held.sigmask), &ret->held.sigmask))
		return wc_error_new(WC_ETARGET, "thread %d is being killed", t->tid);
	ret->held.pid = t->pid;
	ret->held.tid = t->tid;
	ret->held.home = t->user;
	err = remote_open(t->pid, t->tid, &ret->held, &ret->remote);
	ret->opened = !err;
	return err ? err : remote_use_gadgets(&ret->remote, &k->gadgets);
}

void step_remote_close(struct step_tracer *k, struct step_thread *t, struct step_remote *r)
{
	siginfo_t info;

	if (!r->opened)
		return;
	remote_close(&r->remote);
	t->interrupted = t->disturbed = false; /* it stands at a stop that was asked for */
	/* It was killed on the way, and its end was waited for there. */
	if (waitid(P_PID, (id_t)t->tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) < 0)
		step_threads_put_aside(k, t->tid, SIGKILL);
}
