/*
 * Most children have one thread, and memory of their own. While that thread is stopped nobody changes
 * anything in it: the action is put back and the memory unmapped in one stop, and from the one to the other
 * on the thread unmaps it by itself on its way home, should we be killed. In others it goes step by step.
 *
 * Our own code is not used in them: the copy may be half of it, and where its stack would be is shared by
 * all.
 */
#include <errno.h>
#include <stddef.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/target/inject/forked.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/inject_impl.h"
#include "watchctl/target/inject/remote.h"
#include "watchctl/target/inject/scratch.h"
#include "watchctl/target/inject/trap_action.h"

#define NR_MUNMAP 11
#define CHAIN_MAX 64u
#define FORK_TICKS 50u /* so long a fork may take, which copies the action first, and notes the time last */

static struct injection injection_in(const struct forked *f, pid_t pid)
{
	struct injection inj = f->inj;

	inj.pid = pid;
	inj.held = NULL;
	inj.shared = NULL;
	inj.adopted = true;
	inj.stale_base = inj.stale_size = 0; /* another family's */
	return inj;
}

/* Its action */

enum fate {
	OURS,	  /* it is ours */
	BEHIND,	  /* ours is behind that of other watchctls */
	NEVER,	  /* ours was not there, or is not any more */
	REPLACED, /* the program has put one of its own in place of ours */
};

static bool read_old(const struct injection *inj, struct wire_sigaction *ret)
{
	struct memory_view mem = proc_memory(&inj->pid);
	uint64_t magic;

	return memory_read(&mem, inj->control, &magic, sizeof(magic)) && magic == WIRE_MAGIC &&
	       memory_read(&mem, inj->control + offsetof(struct wire_control, old), ret, sizeof(*ret));
}

static bool was_born_without(const struct forked *f, pid_t pid)
{
	uint64_t born = proc_start_time(pid);

	return (f->placed && born <= f->placed + FORK_TICKS) || (f->withdrawn && born >= f->withdrawn);
}

/* *ret_at: where the one directly before ours says what comes next. */
static enum fate fate_of(const struct forked *f, const struct injection *inj, uint64_t handler,
			 uint64_t *ret_at)
{
	struct wire_sigaction old = { 0 };
	bool has_control = read_old(inj, &old), others = false;
	struct wire_control c;
	uint64_t first = handler, at;
	unsigned int i;

	if (handler == inj->handler)
		return has_control ? OURS : REPLACED;
	for (i = 0; i < CHAIN_MAX && placed_control_of(inj->pid, handler, &c, &at); i++) {
		others = true;
		handler = c.old.handler;
		*ret_at = at + offsetof(struct wire_control, old);
		if (handler == inj->handler)
			return has_control ? BEHIND : REPLACED;
	}
	if (others || !has_control || (first == old.handler && was_born_without(f, inj->pid)))
		return NEVER;
	return REPLACED;
}

static struct wc_error *is_replaced(pid_t pid)
{
	return wc_error_new(
		WC_EFAIL,
		"process %d has replaced watchctl's SIGTRAP handler with its own, and may restore watchctl's",
		pid);
}

static struct wc_error *forked_leave_ask(struct remote *r, uint64_t *ret_handler)
{
	struct memory_view mem = proc_memory(&r->thread.pid);
	uint64_t at = r->scratch + SCRATCH_DATA;
	long result = 0;
	struct wc_error *err = remote_syscall(r, NR_SIGACTION, SIGTRAP_NR, 0, at, 8, 0, 0, &result);

	if (!err && (result || !memory_read(&mem, at, ret_handler, sizeof(*ret_handler))))
		err = wc_error_new(WC_EFAIL, "cannot read the SIGTRAP action of process %d", r->thread.pid);
	return err;
}

/* Other watchctls' handlers are in front of ours: from now on they pass on to what ours passed on to. */
static struct wc_error *take_from_behind(const struct injection *inj, uint64_t at)
{
	struct wire_sigaction old;

	if (read_old(inj, &old) && proc_write(inj->pid, at, &old, sizeof(old)))
		return NULL;
	return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", inj->pid);
}

static bool has_one_thread(pid_t pid)
{
	struct thread_ids ids;
	bool one;

	if (!proc_threads(pid, &ids))
		return false;
	one = ids.n == 1;
	thread_ids_deinit(&ids);
	return one;
}

static struct wc_error *open_in(struct forked *f, pid_t pid, struct remote *r)
{
	struct wc_error *err = NULL;
	struct proc_status s;

	if (!proc_status_read(pid, pid, &s))
		return wc_error_new(WC_ETARGET, "process %d ended", pid);
	if (s.state == 'D' && has_one_thread(pid))
		return wc_error_new(
			WC_ENOTSUP,
			"process %d is in an uninterruptible system call (it may wait for a child in "
			"vfork)",
			pid);
	if (!f->gadgets.syscall_ret || !gadgets_are_there(pid, &f->gadgets))
		err = gadgets_find(pid, &f->gadgets);
	return err ? err : remote_open_prepared(pid, 0, NULL, r);
}

/* At once */

static bool is_inside(const struct injection *inj, const struct remote *r)
{
	uint64_t pc = r->thread.home.rip;

	return pc >= inj->base && pc < inj->control;
}

static struct wc_error *put_back_and_unmap(const struct forked *f, const struct injection *inj,
					   struct remote *r)
{
	uint64_t handler = 0, at = 0;
	struct wc_error *err = forked_leave_ask(r, &handler);
	enum fate fate;
	long result;

	if (err)
		return err;
	fate = fate_of(f, inj, handler, &at);
	if (fate == REPLACED)
		return is_replaced(inj->pid);
	if (fate == BEHIND)
		err = take_from_behind(inj, at);
	if (err)
		return err;
	remote_undo_from_here(r);
	if (fate == OURS)
		err = remote_syscall(r, NR_SIGACTION, SIGTRAP_NR,
				     inj->control + offsetof(struct wire_control, old), 0, 8, 0, 0, &result);
	if (!err)
		err = remote_syscall(r, NR_MUNMAP, inj->base, inj->size, 0, 0, 0, 0, &result);
	return err;
}

/* *ret_done false: it is not like that after all, and nothing was done. */
static struct wc_error *leave_at_once(struct forked *f, const struct injection *inj, bool *ret_done)
{
	const struct remote_undo undo = { .nr = NR_MUNMAP, .addr = inj->base, .len = inj->size };
	scoped(remote_closep) struct remote r = { 0 };
	struct wc_error *err = open_in(f, inj->pid, &r);

	*ret_done = true;
	if (!err)
		err = remote_use_gadgets_undoing(&r, &f->gadgets, &undo);
	if (err)
		return err;
	remote_keep(&r);
	/* It stands still, and makes neither thread nor child any more. */
	if (!has_one_thread(inj->pid) || proc_made_sharer(inj->pid)) {
		*ret_done = false;
		return NULL;
	}
	if (is_inside(inj, &r))
		return wc_error_new(WC_EFAIL, "a thread of process %d stays inside the handler", inj->pid);
	return put_back_and_unmap(f, inj, &r);
}

/* Step by step */

static struct wc_error *put_back(struct forked *f, const struct injection *inj)
{
	scoped(remote_closep) struct remote r = { 0 };
	uint64_t handler = 0, at = 0;
	bool replaced = false;
	struct wc_error *err = open_in(f, inj->pid, &r);

	if (!err)
		err = remote_use_gadgets(&r, &f->gadgets);
	if (!err)
		err = forked_leave_ask(&r, &handler);
	if (err)
		return err;
	switch (fate_of(f, inj, handler, &at)) {
	case OURS:
		err = trap_action_put_back(&r, inj->control + offsetof(struct wire_control, old),
					   inj->control + offsetof(struct wire_control, withdrawn),
					   inj->handler, &replaced);
		return !err && replaced ? is_replaced(inj->pid) : err;
	case BEHIND:
		return take_from_behind(inj, at);
	case NEVER:
		return NULL;
	default:
		return is_replaced(inj->pid);
	}
}

/* After its own action: from then on none is made that has ours. */
static struct wc_error *put_back_in_sharers(struct forked *f, const struct injection *inj)
{
	struct wc_error *err = NULL;
	struct thread_ids ids;
	size_t i;

	proc_sharers(inj->pid, &ids);
	for (i = 0; i < ids.n && !err; i++) {
		struct injection theirs = *inj;

		theirs.pid = ids.v[i];
		if (proc_shares_actions(inj->pid, ids.v[i]))
			continue;
		err = put_back(f, &theirs);
		if (err && !forked_has(f, ids.v[i])) { /* it has ended meanwhile */
			wc_error_free(err);
			err = NULL;
		}
	}
	thread_ids_deinit(&ids);
	return err;
}

static struct wc_error *leave_in_steps(struct forked *f, struct injection *inj)
{
	struct wc_error *err = put_back(f, inj);

	if (!err)
		err = put_back_in_sharers(f, inj);
	return err ? err : inject_remove(inj);
}

/* Hits of its own that are still under way. */
static struct wc_error *forked_leave_settle(struct injection *inj)
{
	if (inject_flush(inj) && !inject_has_pending(inj->pid))
		return NULL;
	return wc_error_new(WC_ENOTSUP, "a SIGTRAP may still be pending in a thread of process %d", inj->pid);
}

struct wc_error *forked_leave_one(struct forked *f, pid_t pid, const struct thread_ids *others)
{
	struct injection inj = injection_in(f, pid);
	struct wc_error *err = NULL;
	bool done = false;

	if (f->has_watches)
		err = forked_leave_settle(&inj);
	if (!err && has_one_thread(pid) && !proc_shares_with_any(pid, others)) {
		err = inject_not_kept(&inj);
		if (!err)
			err = leave_at_once(f, &inj, &done);
	}
	return err || done ? err : leave_in_steps(f, &inj);
}
