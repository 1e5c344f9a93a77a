/*
 * trap_known - what is known of the action of SIGTRAP in a traced process. A hit of a thread that blocks the signal
 * makes the kernel remove the handler, and afterwards nobody can ask what it was: so a tracer learns it before the first
 * hit and now and then, and gives it back.
 */
#ifndef WATCHCTL_TARGET_INJECT_TRAP_KNOWN_H
#define WATCHCTL_TARGET_INJECT_TRAP_KNOWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/target/inject/remote.h"

struct trap_known {
	bool has_action;	      /* there is a handler, and @action is what the program has set */
	uint32_t given_back;	      /* how often it was set again */
	uint64_t looked_ns;	      /* when the tracer looked at it last; 0: not yet */
	struct wire_sigaction action; /* undefined without has_action */
};

/*
 * Before @pid is traced, by any of its threads. What cannot be asked (seccomp, another tracer), and that there is no
 * handler, is not known: @ret is zero then.
 */
void trap_known_ask(pid_t pid, struct trap_known *ret);

/*
 * By a thread of the process that is stopped for it, @r (stopped_call.h). @err: why there is none; it is taken.
 *
 * The program may have set another action: what was known stays where none can be asked.
 */
void trap_known_learn(struct trap_known *k, struct remote *r, struct wc_error *err);

/* False: it was not removed, but another set; or it cannot be given back. Nothing is known then. */
bool trap_known_give_back(struct trap_known *k, struct remote *r, struct wc_error *err);

#endif
