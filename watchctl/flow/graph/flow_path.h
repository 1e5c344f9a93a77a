/*
 * flow_path - why a thread did something then: from its unit of work backwards, over what began that unit, up to an input.
 */
#ifndef WATCHCTL_FLOW_GRAPH_FLOW_PATH_H
#define WATCHCTL_FLOW_GRAPH_FLOW_PATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/graph/flow_graph.h"

enum flow_path_end {
	FLOW_PATH_INPUT,  /* the last unit has no cause that the events show */
	FLOW_PATH_TIMER,  /* it began by its own timeout */
	FLOW_PATH_CIRCLE, /* it comes back to a unit that it has */
	FLOW_PATH_LONG,	  /* there is more, but FLOW_PATH_STEPS are enough */
};

#define FLOW_PATH_STEPS 64u

/* A unit, the newest first. */
struct flow_step {
	uint64_t until_ns; /* what it did from here on did not matter any more */
	uint32_t node;
	uint32_t edge; /* that brought it about, or FLOW_NONE */
	bool follows; /* none did, and the thread had gone on without a wait: the next step is its unit before (weak) */
	uint32_t wait; /* first of its waits in flow_path.wait */
	uint32_t nwaits;
};

struct flow_path {
	struct flow_step step[FLOW_PATH_STEPS];
	size_t n;
	uint32_t *wait; /* edges of kind wait_for, the longest first in each step */
	size_t nwaits, waits_cap;
	enum flow_path_end end;
};

/* The unit of @thread that has @ns, or the last one before; FLOW_NONE: there is none. */
uint32_t flow_path_node(const struct flow_graph *g, uint32_t thread, uint64_t ns);

/*
 * Backwards from @node, which is looked at up to @ns. Waits are kept if they took one @share-th of their unit or more. @ret is
 * zero-initialised, and the caller's to flow_path_deinit(). wc_enomem.
 */
struct wc_error *flow_path_find(const struct flow_graph *g, uint32_t node, uint64_t ns, unsigned int share,
				struct flow_path *ret);
void flow_path_deinit(struct flow_path *p);

#endif
