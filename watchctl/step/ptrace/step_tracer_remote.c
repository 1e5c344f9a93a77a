/* A thread that stands still makes a system call for us (target/inject/stopped_call.h). */
#include <signal.h>
#include <string.h>

#include "watchctl/step/ptrace/step_tracer.h"

struct wc_error *step_remote_open(struct step_tracer *k, struct step_thread *t, struct stopped_call *ret)
{
	memset(ret, 0, sizeof(*ret));
	if (!step_threads_load(t) || !step_threads_store(t))
		return wc_error_new(WC_ETARGET, "thread %d is being killed", t->tid);
	return stopped_call_open(t->pid, t->tid, &t->user, &k->gadgets, ret);
}

void step_remote_close(struct step_tracer *k, struct step_thread *t, struct stopped_call *c)
{
	bool opened = c->opened, alive = stopped_call_close(c);

	if (!opened)
		return;
	t->interrupted = t->disturbed = false; /* it stands at a stop that was asked for */
	if (!alive)
		step_threads_put_aside(k, t->tid, SIGKILL);
}
