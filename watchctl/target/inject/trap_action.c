#include "watchctl/target/inject/trap_action.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/inject/scratch.h"
#include "watchctl/target/proc/proc.h"

#define NR_SIGACTION 13
#define IGNORE 1u
#define EXCHANGES 100u /* so often the program may change its action while we change it */

struct wc_error *trap_action_ignore(pid_t pid, struct tracee *held)
{
	/* The kernel's struct sigaction: handler, flags, restorer, mask. */
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
			"process %d runs under seccomp: its setting to ignore SIGTRAP cannot be restored",
			pid);
	err = gadgets_find(pid, &g);
	if (!err)
		err = remote_open_prepared(pid, 0, held, &r);
	if (!err)
		err = remote_use_gadgets(&r, &g);
	if (err)
		return err;
	if (!proc_write(pid, r.scratch + SCRATCH_DATA, action, sizeof(action)))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", pid);
	err = remote_syscall(&r, NR_SIGACTION, SIGTRAP, r.scratch + SCRATCH_DATA, 0, 8, 0, 0, &result);
	if (!err && result)
		err = wc_error_errno(WC_EFAIL, (int)-result, "process %d cannot ignore SIGTRAP", pid);
	return err;
}

struct wc_error *trap_action_exchange(struct remote *r, uint64_t to, uint64_t scratch,
				      struct wire_sigaction *ret_was)
{
	struct memory_view mem = proc_memory(&r->thread.pid);
	long result = 0;
	struct wc_error *err = remote_syscall(r, NR_SIGACTION, SIGTRAP, to, scratch, 8, 0, 0, &result);

	if (err)
		return err;
	if (result || !memory_read(&mem, scratch, ret_was, sizeof(*ret_was)))
		return wc_error_errno(WC_ENOTSUP, (int)-result,
				      "process %d may not install a SIGTRAP handler", r->thread.pid);
	return NULL;
}

struct wc_error *trap_action_replace(struct remote *r, uint64_t from, const struct wire_sigaction *to)
{
	struct memory_view mem = proc_memory(&r->thread.pid);
	uint64_t at = r->scratch + SCRATCH_DATA;
	struct wire_sigaction now = { 0 };
	long result = 0;
	struct wc_error *err = remote_syscall(r, NR_SIGACTION, SIGTRAP, 0, at, 8, 0, 0, &result);

	if (err || result || !memory_read(&mem, at, &now, sizeof(now)) || now.handler != from)
		return err;
	if (!proc_write(r->thread.pid, at, to, sizeof(*to)))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", r->thread.pid);
	return remote_syscall(r, NR_SIGACTION, SIGTRAP, at, 0, 8, 0, 0, &result);
}

struct wc_error *trap_action_put_back(struct remote *r, uint64_t to, uint64_t scratch, uint64_t handler,
				      bool *replaced)
{
	struct memory_view mem = proc_memory(&r->thread.pid);
	struct wire_sigaction next = { 0 }, was = { 0 }, before = { 0 };
	struct wc_error *err;
	unsigned int i;

	if (!memory_read(&mem, to, &next, sizeof(next)))
		return wc_error_errno(WC_EPERM, errno, "cannot read from process %d", r->thread.pid);
	for (i = 0; i < EXCHANGES; i++) {
		err = trap_action_exchange(r, to, scratch, &was);
		if (err || (i ? !memcmp(&was, &before, sizeof(was)) : was.handler == handler))
			return err;
		*replaced = true;
		to = scratch + sizeof(was);
		before = next;
		next = was;
		if (!proc_write(r->thread.pid, to, &next, sizeof(next)))
			return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", r->thread.pid);
	}
	return NULL;
}
