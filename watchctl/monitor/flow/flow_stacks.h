/*
 * flow_stacks - the stacks of threads that wait for long, taken while they sleep: none is stopped, and what changes meanwhile is
 * dropped. See trace/flow/flow_stack_tag.h for what the sink gets.
 */
#ifndef WATCHCTL_MONITOR_FLOW_FLOW_STACKS_H
#define WATCHCTL_MONITOR_FLOW_FLOW_STACKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/event.h"

struct flow_stacks;

struct flow_stacks_ask {
	uint64_t least_ns; /* of waits that last so long, once each */
	const pid_t *pid;  /* of these processes, and those that they start; none: of all */
	size_t npids;
};

/* The programs for it are loaded. WC_ENOTSUP, WC_EPERM. */
struct wc_error *flow_stacks_open(const struct flow_stacks_ask *ask, struct event_sink sink,
				  struct flow_stacks **ret);

/* One more process. wc_enomem. */
struct wc_error *flow_stacks_add(struct flow_stacks *s, pid_t pid);

/* Looks if it is time to: as often as waits of that length need, but for a twentieth of a CPU at most. */
struct wc_error *flow_stacks_poll(struct flow_stacks *s);

/* Of the waits that were long enough, those whose stack was not taken, because there were too many. */
uint64_t flow_stacks_left_out(const struct flow_stacks *s);

void flow_stacks_free(struct flow_stacks *s); /* accepts NULL */

#endif
