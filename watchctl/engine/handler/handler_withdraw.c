/*
 * The handler is taken out of the target and of its children, or it is said why not.
 */
#include "watchctl/base/error.h"
#include "watchctl/base/task.h"
#include "watchctl/engine/handler/handler_engine.h"
#include "watchctl/target/proc/proc.h"

static struct wc_error *withdraw_from_target(struct engine *e)
{
	bool replaced = false;
	struct wc_error *err = NULL;

	if (e->gone || handler_target_ended(e) || handler_target_execed(e))
		return NULL;
	if (e->unmapped)
		return inject_give_up(&e->inj);
	if (handler_memory_state(e) == MEMORY_BARRED && !proc_is_ending(e->pid, e->pid))
		err = wc_error_new(WC_EPERM, "tracing it is no longer permitted to this user: run as root");
	else if (!e->settled)
		return wc_error_new(
			WC_EFAIL,
			"a SIGTRAP of watchctl may still be pending in a thread of process %d: the "
			"handler is left in place, where it only passes signals on (watchctl clear -p %d "
			"removes it later)",
			e->pid, e->pid);
	else if (e->inj.installed)
		err = inject_uninstall(&e->inj, &replaced);
	if (err)
		return wc_error_context(
			err,
			"the handler is left in process %d, where it only passes signals on (watchctl clear -p %d "
			"removes it when that is possible)",
			e->pid, e->pid);
	if (replaced)
		return wc_error_new(
			WC_EFAIL,
			"process %d has installed its own SIGTRAP handler meanwhile, and may restore "
			"watchctl's: watchctl's is left mapped, where it only passes signals on",
			e->pid);
	return inject_remove(&e->inj);
}

/* First from the target: from then on no child comes to be that has it from there. */
struct wc_error *handler_withdraw(struct engine *e)
{
	struct wc_error *err, *more;

	if (!e->inj.base || e->pidfd < 0)
		return NULL;
	if (!e->stopped)
		wc_error_free(handler_stop(e)); /* the caller has an error to report already */
	spare_files_release(&e->spare);
	spare_memory_release(&e->spare_memory);
	e->copies.withdrawn = task_ticks_now();
	err = withdraw_from_target(e);
	if (err && (proc_has_execed(e->pid, e->stack_start) || handler_target_ended(e))) {
		wc_error_free(err);
		err = NULL;
	}
	more = handler_leave_children(e, err);
	if (err && more)
		err = wc_error_hint(err, "%s", more->text);
	return wc_error_first(err, more);
}
