#include "watchctl/target/inject/stopped_call.h"

#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"

/* Others than last time, where a breakpoint is in those now: in what signal handlers return to, for example. */
static struct wc_error *find_gadgets(pid_t pid, pid_t tid, struct stopped_gadgets *g)
{
	struct proc_status s;
	struct wc_error *err;

	if (g->known && gadgets_are_there(tid, &g->gadgets))
		return NULL;
	g->known = false;
	if (!proc_status_read(pid, tid, &s) || s.seccomp)
		return wc_error_new(WC_ENOTSUP, "the program runs under seccomp");
	err = gadgets_find(tid, &g->gadgets);
	g->known = !err;
	return err;
}

struct wc_error *stopped_call_open(pid_t pid, pid_t tid, const struct user_regs_struct *home,
				   struct stopped_gadgets *g, struct stopped_call *ret)
{
	struct wc_error *err;

	memset(ret, 0, sizeof(*ret));
	err = find_gadgets(pid, tid, g);
	if (err)
		return err;
	if (held_ptrace(PTRACE_GETSIGMASK, tid, sizeof(ret->held.sigmask), &ret->held.sigmask))
		return wc_error_new(WC_ETARGET, "thread %d is being killed", tid);
	ret->held.pid = pid;
	ret->held.tid = tid;
	ret->held.home = *home;
	err = remote_open(pid, tid, &ret->held, &ret->remote);
	ret->opened = !err;
	return err ? err : remote_use_gadgets(&ret->remote, &g->gadgets);
}

bool stopped_call_close(struct stopped_call *c)
{
	siginfo_t info;

	if (!c->opened)
		return true;
	remote_close(&c->remote);
	c->opened = false;
	return waitid(P_PID, (id_t)c->held.tid, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | __WALL) >= 0;
}
