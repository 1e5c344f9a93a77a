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

/* A thread that is ready to make system calls, in a scratch: see trap_action_ignore(). */
static struct wc_error *open_for_call(pid_t pid, struct tracee *held, struct remote *ret)
{
	struct gadgets g;
	struct wc_error *err = gadgets_find(pid, &g);

	if (!err)
		err = remote_open_prepared(pid, 0, held, ret);
	return err ? err : remote_use_gadgets(ret, &g);
}

/* Sets @action, or, NULL, asks for what is set: then *ret_now is. */
static struct wc_error *set_or_ask(struct remote *r, const struct wire_sigaction *action,
				   struct wire_sigaction *ret_now)
{
	const uint64_t at = r->scratch + SCRATCH_DATA;
	struct memory_view mem = proc_memory(&r->thread.pid);
	struct wc_error *err;
	long result = 0;

	if (action && !proc_write(r->thread.pid, at, action, sizeof(*action)))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", r->thread.pid);
	err = remote_syscall(r, NR_SIGACTION, SIGTRAP, action ? at : 0, action ? 0 : at, 8, 0, 0, &result);
	if (err)
		return err;
	if (result)
		return wc_error_errno(WC_EFAIL, (int)-result, "process %d cannot %s its action of SIGTRAP",
				      r->thread.pid, action ? "set" : "tell");
	if (!action && !memory_read(&mem, at, ret_now, sizeof(*ret_now)))
		return wc_error_errno(WC_EPERM, errno, "cannot read from process %d", r->thread.pid);
	return NULL;
}

struct wc_error *trap_action_ignore(pid_t pid, struct tracee *held)
{
	const struct wire_sigaction ignore = { .handler = IGNORE };
	scoped(remote_closep) struct remote r = { 0 };
	struct proc_status s;
	struct wc_error *err;

	if (!proc_status_read(pid, pid, &s) || s.state == 'Z' || ((s.ignored | s.caught) & PROC_SIGTRAP))
		return NULL;
	if (s.seccomp)
		return wc_error_new(
			WC_ENOTSUP,
			"process %d runs under seccomp: its setting to ignore SIGTRAP cannot be restored",
			pid);
	err = open_for_call(pid, held, &r);
	return err ? err : set_or_ask(&r, &ignore, NULL);
}

struct wc_error *trap_action_read(struct remote *r, struct wire_sigaction *ret)
{
	return set_or_ask(r, NULL, ret);
}

struct wc_error *trap_action_ask(pid_t pid, struct wire_sigaction *ret)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct wc_error *err = open_for_call(pid, NULL, &r);

	return err ? err : trap_action_read(&r, ret);
}

bool trap_action_is_removed(const struct wire_sigaction *now, const struct wire_sigaction *was)
{
	return !now->handler && now->flags == was->flags && now->restorer == was->restorer &&
	       now->mask == was->mask;
}

struct wc_error *trap_action_give_back(struct remote *r, const struct wire_sigaction *was, bool *ret)
{
	struct wire_sigaction now;
	struct wc_error *err = trap_action_read(r, &now);
	bool removed = !err && trap_action_is_removed(&now, was);

	if (removed)
		err = set_or_ask(r, was, NULL);
	*ret = !err && (removed || !memcmp(&now, was, sizeof(now)));
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
	struct wire_sigaction now;
	struct wc_error *err = trap_action_read(r, &now);

	return err || now.handler != from ? err : set_or_ask(r, to, NULL);
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
