/*
 * wait_process - what a thread waits for that neither a futex nor a descriptor tells: the end of a child, time, signals, SIGCONT, the
 * kernel itself; and whether it waits at all.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_WAIT_PROCESS_H
#define WATCHCTL_FLOW_EXPLAIN_WAIT_PROCESS_H

#include <stdbool.h>

#include "watchctl/flow/explain/look.h"
#include "watchctl/flow/explain/wait_descriptor.h"
#include "watchctl/flow/explain/wait.h"

/*
 * By its state, whatever call it is in: it runs, is stopped, or in D state. False: it sleeps in a call, *ret is untouched.
 */
bool wait_by_state(struct look *l, const struct look_thread *t, struct wait *ret);

/*
 * The system call that @t, of @p, is in; negative: none. A call with a time limit that SIGSTOP or a tracer has interrupted shows as
 * restart_syscall(2), with the arguments of the call that it is: the number is in the code before it then, or the kernel's function in
 * which it sleeps tells.
 */
long wait_call(const struct look_process *p, const struct look_thread *t);

/* By its system call. Always says something. */
void wait_process(struct look *l, struct descriptors *d, struct look_process *p, const struct look_thread *t,
		  struct wait *ret);

#endif
