/*
 * trap_action - what SIGTRAP does in the target: exchanges it while the program may do so too; and puts back
 * that a process ignores it, after a debug exception has made the kernel forget that
 * (force_sig_info_to_task() in kernel/signal.c: what cannot be handled shall kill).
 */
#ifndef WATCHCTL_TARGET_INJECT_TRAP_ACTION_H
#define WATCHCTL_TARGET_INJECT_TRAP_ACTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/target/inject/remote.h"

/* So long a tracer's threads that could be let go of wait for those that cannot stop yet, to do that before.
 */
#define TRAP_ACTION_IGNORE_NS 1000000000ull

/*
 * Has a thread of @pid make the system call: the one that is @held (tracee_hold()), or, NULL, any; then
 * nothing of the process must be traced. NULL also where nothing is to be done: it does ignore it, has a
 * handler by now, or has ended. WC_ENOTSUP under seccomp, which could kill it.
 */
struct wc_error *trap_action_ignore(pid_t pid, struct tracee *held);

/*
 * Sets the action at @to in the target's memory; *ret_was: what it replaces. @scratch: room for two actions
 * there.
 */
struct wc_error *trap_action_exchange(struct remote *r, uint64_t to, uint64_t scratch,
				      struct wire_sigaction *ret_was);

/* The action; @r must use a scratch (remote_use_gadgets()), here and below. */
struct wc_error *trap_action_read(struct remote *r, struct wire_sigaction *ret);

/* The same for a process of which nothing is traced, by any of its threads. WC_ENOTSUP under seccomp. */
struct wc_error *trap_action_ask(pid_t pid, struct wire_sigaction *ret);

/* The kernel may have removed the handler of @was: of an action it changes nothing else
 * (force_sig_info_to_task()). */
bool trap_action_is_removed(const struct wire_sigaction *now, const struct wire_sigaction *was);

/* Sets @was again, if it is removed. *ret: it is set now, or was all the time; false: another one is. */
struct wc_error *trap_action_give_back(struct remote *r, const struct wire_sigaction *was, bool *ret);

/* Sets @to, if the action is the one with the handler @from. */
struct wc_error *trap_action_replace(struct remote *r, uint64_t from, const struct wire_sigaction *to);

/*
 * Sets the action at @to in place of @handler. The program may have set one of its own since it was asked:
 * then that one, which was gone for a moment, is set again, as often as it takes. It has seen @handler as the
 * one before, and may put that back one day: *replaced becomes true.
 */
struct wc_error *trap_action_put_back(struct remote *r, uint64_t to, uint64_t scratch, uint64_t handler,
				      bool *replaced);

#endif
