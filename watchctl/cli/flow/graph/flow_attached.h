/* flow_attached - the accesses to watched variables that stand in the logs attached to a log of the system's events. */
#ifndef WATCHCTL_CLI_FLOW_GRAPH_FLOW_ATTACHED_H
#define WATCHCTL_CLI_FLOW_GRAPH_FLOW_ATTACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/graph/flow_graph.h"

struct flow_attached_access {
	struct flow_access of;
	bool lost; /* it stands for some that are missing: only its time is said */
};

/* Zero-initialised is empty. */
struct flow_attached {
	struct flow_attached_access *access; /* in the order of time */
	size_t n, cap;
	char **variable; /* names, by flow_access.variable */
	size_t nvariables, variables_cap;
	size_t next; /* of `access`, that flow_attached_feed() has not passed on yet */
};

/*
 * Of all logs that are attached to @log. One that is not there, or is damaged, is said on stderr: it is looked for where it was, and
 * beside @log. wc_enomem, or @log cannot be read.
 */
struct wc_error *flow_attached_read(const char *log, struct flow_attached *ret);

/* Those before @ns that have not been passed on to @g yet; UINT64_MAX: all. wc_enomem. */
struct wc_error *flow_attached_feed(struct flow_attached *a, uint64_t ns, struct flow_graph *g);

void flow_attached_deinit(struct flow_attached *a);

#endif
