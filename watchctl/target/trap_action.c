#include "watchctl/target/trap_action.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/target/gadget.h"
#include "watchctl/target/proc.h"
#include "watchctl/target/remote.h"

#define NR_SIGACTION 13
#define IGNORE 1u

struct wc_error *trap_action_ignore(pid_t pid)
{
	/* The kernel's struct sigaction: handler, flags, restorer, mask. It fits below the way home. */
	const uint64_t action[4] = { IGNORE };
	scoped(remote_closep) struct remote r = { 0 };
	struct proc_status s;
	struct gadgets g;
	struct wc_error *err;
	long result = 0;

	if (!proc_status_read(pid, pid, &s) || s.state == 'Z' || ((s.ignored | s.caught) & PROC_SIGTRAP))
		return NULL;
	if (s.seccomp)
		return wc_error_new(
			WC_ENOTSUP,
			"process %d runs under seccomp: that it ignores SIGTRAP cannot be put back", pid);
	err = gadgets_find(pid, &g);
	if (!err)
		err = remote_open(pid, 0, NULL, &r);
	if (!err)
		err = remote_use_gadgets(&r, &g);
	if (err)
		return err;
	if (!proc_write(pid, r.scratch, action, sizeof(action)))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", pid);
	err = remote_syscall(&r, NR_SIGACTION, SIGTRAP, r.scratch, 0, 8, 0, 0, &result);
	if (!err && result)
		err = wc_error_errno(WC_EFAIL, (int)-result, "process %d cannot ignore SIGTRAP", pid);
	return err;
}
