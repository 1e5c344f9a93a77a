/*
 * The way out: the program's own action is put back, and when no thread can be in the handler any more its
 * memory is given back.
 */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/inject/inject_impl.h"
#include "watchctl/target/inject/kept.h"
#include "watchctl/target/inject/trap_action.h"
#include "watchctl/target/proc/proc.h"

#define QUIESCE_MS 2000u
#define CHAIN_MAX 64u

/* Other watchctls' handlers stand in front of ours: the one directly before us gets our successor. */
static bool unchain(const struct injection *inj, uint64_t handler)
{
	struct memory_view mem = proc_memory(&inj->pid);
	struct wire_sigaction next;
	struct wire_control c;
	uint64_t at;
	unsigned int i;

	if (!memory_read(&mem, inj->control + offsetof(struct wire_control, old), &next, sizeof(next)))
		return false;
	for (i = 0; i < CHAIN_MAX && placed_control_of(inj->pid, handler, &c, &at); i++) {
		if (c.old.handler == inj->handler)
			return proc_write(inj->pid, at + offsetof(struct wire_control, old), &next,
					  sizeof(next));
		handler = c.old.handler;
	}
	return false;
}

static struct wc_error *ask_action(const struct injection *inj, struct remote *r, struct wire_sigaction *ret)
{
	struct memory_view mem = proc_memory(&inj->pid);
	uint64_t at = inj->control + BOOT_DATA;
	long result = 0;
	struct wc_error *err = remote_syscall(r, NR_SIGACTION, SIGTRAP_NR, 0, at, 8, 0, 0, &result);

	if (err)
		return err;
	if (result || !memory_read(&mem, at, ret, sizeof(*ret)))
		return wc_error_new(WC_EFAIL, "cannot read the SIGTRAP action of process %d", inj->pid);
	return NULL;
}

struct wc_error *inject_is_installed(struct injection *inj, bool *ret)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct wire_sigaction now = { 0 };
	struct wire_control c;
	struct wc_error *err = inject_open_stub(inj, 0, &r);
	uint64_t at;
	unsigned int i;

	if (!err)
		err = ask_action(inj, &r, &now);
	if (err)
		return err;
	/* Other watchctls' handlers may stand in front of ours. */
	for (i = 0; i < CHAIN_MAX && now.handler != inj->handler; i++) {
		if (!placed_control_of(inj->pid, now.handler, &c, &at))
			break;
		now.handler = c.old.handler;
	}
	*ret = now.handler == inj->handler;
	return NULL;
}

/* For whoever finds the handler if we end before its memory is given back: nobody holds on to ours. */
static void report_withdrawn(const struct injection *inj)
{
	injection_write(inj, offsetof(struct wire_control, withdrawn), &inj->handler, sizeof(inj->handler));
}

/* It was taken out by a controller that came no further, whatever has been put in front since. */
static bool was_withdrawn(const struct injection *inj)
{
	uint64_t handler;

	return injection_read(inj, offsetof(struct wire_control, withdrawn), &handler, sizeof(handler)) &&
	       handler == inj->handler;
}

static struct wc_error *uninstall_one(struct injection *inj, bool *replaced)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct wire_sigaction now = { 0 };
	struct wc_error *err = inject_open_stub(inj, 0, &r);

	*replaced = false;
	if (!err)
		err = ask_action(inj, &r, &now);
	if (err)
		return err;
	if (now.handler != inj->handler) {
		*replaced = !was_withdrawn(inj) && !unchain(inj, now.handler);
		if (!*replaced)
			report_withdrawn(inj);
		inj->installed = false;
		return NULL;
	}
	err = trap_action_put_back(&r, inj->control + offsetof(struct wire_control, old),
				   inj->control + offsetof(struct wire_control, withdrawn), inj->handler,
				   replaced);
	if (!err)
		inj->installed = false;
	return err;
}

/* A process that was made with CLONE_VM runs in the same memory, with a copy of the actions. */
static struct wc_error *uninstall_in_sharers(const struct injection *inj)
{
	struct wc_error *err = NULL;
	struct thread_ids ids;
	size_t i;

	proc_sharers(inj->pid, &ids);
	for (i = 0; i < ids.n && !err; i++) {
		struct injection theirs = *inj;
		struct proc_status s;
		bool replaced;

		theirs.pid = ids.v[i];
		theirs.held = NULL;
		if (proc_shares_actions(inj->pid, ids.v[i]) || !proc_status_read(ids.v[i], ids.v[i], &s) ||
		    !(s.caught & PROC_SIGTRAP))
			continue;
		err = uninstall_one(&theirs, &replaced);
		if (err && err->kind == WC_ETARGET) { /* it has ended meanwhile */
			wc_error_free(err);
			err = NULL;
		}
	}
	thread_ids_deinit(&ids);
	return err;
}

struct wc_error *inject_uninstall(struct injection *inj, bool *replaced)
{
	struct wc_error *err = uninstall_one(inj, replaced);

	/* After the target's own: from now on none is made that has our action. */
	return err || *replaced ? err : uninstall_in_sharers(inj);
}

static bool in_our_code(const struct injection *inj, uint64_t pc)
{
	return (pc >= inj->base && pc < inj->control) ||
	       (pc >= inj->stale_base && pc < inj->stale_base + inj->stale_size);
}

static bool inside(const struct injection *inj, pid_t pid, pid_t tid)
{
	struct tracee t;
	bool is_inside;
	uint64_t sp, pc;

	if (proc_resting(pid, tid, &sp, &pc))
		return in_our_code(inj, pc);
	switch (tracee_stop(pid, tid, 200, &t)) {
	case TRACEE_STOPPED:
		is_inside = in_our_code(inj, t.home.rip);
		tracee_release(&t);
		return is_inside;
	case TRACEE_GONE:
		return false;
	default:
		return true;
	}
}

static bool any_inside(const struct injection *inj, pid_t pid)
{
	struct thread_ids ids;
	bool busy = false;
	size_t i;

	if (!proc_threads(pid, &ids))
		return false;
	for (i = 0; i < ids.n && !busy; i++)
		busy = inside(inj, pid, ids.v[i]);
	thread_ids_deinit(&ids);
	return busy;
}

/* No thread is in the handler, nor can come into it any more: of whoever runs in that memory. */
static bool quiescent(const struct injection *inj)
{
	bool busy = any_inside(inj, inj->pid);
	struct thread_ids ids;
	size_t i;

	proc_sharers(inj->pid, &ids);
	for (i = 0; i < ids.n && !busy; i++)
		busy = any_inside(inj, ids.v[i]);
	thread_ids_deinit(&ids);
	return !busy;
}

struct wc_error *inject_not_kept(const struct injection *inj)
{
	const uint64_t handler[] = { inj->handler, inj->stale_handler };
	uint64_t at;

	switch (kept_look(inj->pid, handler, inj->stale_base ? 2 : 1, &at)) {
	case KEPT_NOWHERE:
	case KEPT_NOT_LOOKED:
		return NULL;
	case KEPT_SOMEWHERE:
		return wc_error_new(
			WC_EFAIL,
			"process %d has queried its SIGTRAP action, keeps the address of watchctl's SIGTRAP handler at 0x%" PRIx64
			", "
			"and may set it again: the handler is left mapped, and passes signals on",
			inj->pid, at);
	default:
		return wc_error_new(
			WC_EFAIL,
			"it could not be determined whether process %d keeps the address of watchctl's "
			"SIGTRAP handler, which it receives when it queries its action: the handler is "
			"left mapped, and passes signals on",
			inj->pid);
	}
}

struct wc_error *inject_remove(struct injection *inj)
{
	scoped(remote_closep) struct remote r = { 0 };
	struct wc_error *err;
	struct gadgets g;
	unsigned int ms;

	for (ms = 0; !quiescent(inj); ms++) {
		if (ms == QUIESCE_MS)
			return wc_error_new(
				WC_EFAIL,
				"a thread of process %d stays inside the handler (stopped, or starved): the "
				"handler is left mapped, and passes signals on",
				inj->pid);
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	}
	err = inject_not_kept(inj);
	if (err)
		return err;
	err = gadgets_find(inj->pid, &g);
	if (!err)
		err = remote_open_prepared(inj->pid, 0, inj->held, &r);
	if (!err)
		err = remote_use_gadgets(&r, &g);
	if (!err)
		err = inject_unmap(inj, &r);
	return err ? wc_error_context(err, "the handler's memory is left mapped in process %d", inj->pid)
		   : NULL;
}
