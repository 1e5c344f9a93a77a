/*
 * stopped_call - a thread that its tracer has stopped makes system calls for us, and stands where it stood. For the
 * tracers that are processes of their own, which stop threads for other reasons.
 */
#ifndef WATCHCTL_TARGET_INJECT_STOPPED_CALL_H
#define WATCHCTL_TARGET_INJECT_STOPPED_CALL_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

#include "watchctl/base/error.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/stop/tracee.h"

/* What is known of the program's code from call to call; zero at first. */
struct stopped_gadgets {
	struct gadgets gadgets;
	bool known;
};

struct stopped_call {
	struct tracee held;
	struct remote remote;
	bool opened;
};

/*
 * @tid, a thread of @pid, is stopped, with the registers @home, which the kernel knows as well. Its signal of this stop,
 * if any, is lost. Other threads of the process may run. To be closed also after a failure. WC_ENOTSUP: seccomp, or no
 * code that could be used; WC_ETARGET: it is being killed.
 */
struct wc_error *stopped_call_open(pid_t pid, pid_t tid, const struct user_regs_struct *home,
				   struct stopped_gadgets *g, struct stopped_call *ret);

/* False: the thread was killed meanwhile, and its end was waited for: its tracer gets no status of it any more. */
bool stopped_call_close(struct stopped_call *c);

#endif
