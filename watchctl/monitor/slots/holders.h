/*
 * holders - the processes that may hold debug registers of others, as far as their open files tell: those
 * with perf events, watchctl's sessions, and the tracers of its ptrace engine. Reads /proc only.
 *
 * Of a perf event nobody can say from outside whether it is a breakpoint, or of which process. A session of
 * watchctl also holds a pidfd of the process that it watches: that is known for certain.
 */
#ifndef WATCHCTL_MONITOR_SLOTS_HOLDERS_H
#define WATCHCTL_MONITOR_SLOTS_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/wire.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/ptrace/ptrace_box.h"

#define HOLDER_COMMAND 4096u

struct holder {
	pid_t pid;
	char name[17];
	char *command; /* its arguments, joined by blanks; never NULL */
	unsigned int perf_events;
	bool is_watchctl;
	bool follows_fork; /* by its arguments: what it holds may be in forked children too */
	pid_t *target;	   /* is_watchctl: whom it has a pidfd of */
	size_t ntargets, cap;
	/* Of a tracer: */
	struct wire_control *control; /* of its session, a copy; NULL: it is none */
	struct ptrace_box *box;
};

struct holder_list {
	struct holder *v;
	size_t n, cap;
};

/* All there are, but for ourselves. Processes that may not be looked at are left out. */
struct wc_error *holders_read(struct holder_list *ret);

/* Accepts zero-initialised. */
void holders_deinit(struct holder_list *l);

/* For scoped(holders_deinitp). */
static inline void holders_deinitp(struct holder_list *l)
{
	holders_deinit(l);
}

/* @h watches process @pid by the handler or ring engine. */
bool holder_watches(const struct holder *h, pid_t pid);

/* @h is a tracer that traces @pid. */
bool holder_keeps(const struct holder *h, pid_t pid);

/* NULL: none of that number. */
const struct holder *holders_find(const struct holder_list *l, pid_t pid);

#endif
