/*
 * flow_suggest - rules that a graph gives reason for: a thread whose unit of work goes on although it waits for the next message again
 * and again, in a call that no rule names. A suggestion is no proof: who reads it knows what the program waits for.
 */
#ifndef WATCHCTL_FLOW_GRAPH_FLOW_SUGGEST_H
#define WATCHCTL_FLOW_GRAPH_FLOW_SUGGEST_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/graph/flow_graph.h"

/* Nothing is suggested below these. */
#define FLOW_SUGGEST_WAITS 8u	/* of the unit, with a message since the end of the one before */
#define FLOW_SUGGEST_ORIGINS 3u /* threads that these came from */

/* That waits in @call on @object_kind are idle. */
struct flow_suggestion {
	uint64_t unit_ns; /* how long the unit was, in which most such waits were */
	uint32_t thread,
		leader; /* leader: the first thread of its process, or itself where that is not known */
	uint32_t node;	/* that unit */
	uint32_t units; /* that the thread has now, in all */
	uint32_t waits, served; /* of the unit; served: with a message since the one before */
	uint32_t messages, origins;
	uint16_t call;
	uint8_t object_kind;
};

struct flow_suggestions {
	struct flow_suggestion *of; /* one of a thread, call and kind; owned; most messages first */
	size_t n, cap;
};

/* After flow_graph_end(). @ret is zero-initialised, and the caller's to flow_suggestions_deinit(). wc_enomem. */
struct wc_error *flow_suggest(struct flow_graph *g, struct flow_suggestions *ret);
void flow_suggestions_deinit(struct flow_suggestions *s);

#endif
