/*
 * trap_action - puts back that a process ignores SIGTRAP, after a debug exception has made the kernel forget
 * it (force_sig_info_to_task() in kernel/signal.c: what cannot be handled shall kill).
 */
#ifndef WATCHCTL_TARGET_TRAP_ACTION_H
#define WATCHCTL_TARGET_TRAP_ACTION_H

#include <sys/types.h>

#include "watchctl/base/error.h"

/*
 * Has a thread of @pid make the system call; nothing of the process must be traced. NULL also where nothing
 * is to be done: it does ignore it, has a handler by now, or has ended. WC_ENOTSUP under seccomp, which could
 * kill it.
 */
struct wc_error *trap_action_ignore(pid_t pid);

#endif
