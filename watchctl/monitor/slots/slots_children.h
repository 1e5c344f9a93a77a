/*
 * slots_children - handlers of watchctls that are no more, in the processes that were forked from the one
 * that they watched.
 */
#ifndef WATCHCTL_MONITOR_SLOTS_SLOTS_CHILDREN_H
#define WATCHCTL_MONITOR_SLOTS_SLOTS_CHILDREN_H

#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/monitor/slots/slots.h"
#include "watchctl/target/inject/placed.h"

/* Out of process @pid, which has a copy of it. */
struct wc_error *slots_clear_child(pid_t pid, const struct placed *p);

/*
 * Out of all that were forked from process @pid, which may have ended. Reported are, by watchctl, in how many
 * that was; what is left, and why, is the error.
 */
struct wc_error *slots_clear_children(pid_t pid, void (*report)(void *ctx, const struct slots_freed *f),
				      void *ctx);

#endif
