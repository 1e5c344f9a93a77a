/* flow_graph_print - what flow_graph_show and flow_path_show share: the graph of a log, and objects of JSON. */
#ifndef WATCHCTL_CLI_FLOW_GRAPH_FLOW_GRAPH_PRINT_H
#define WATCHCTL_CLI_FLOW_GRAPH_FLOW_GRAPH_PRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/flow/graph/flow_attached.h"
#include "watchctl/cli/flow/graph/flow_wait_stacks.h"
#include "watchctl/flow/blame/seen.h"
#include "watchctl/flow/graph/flow_graph.h"
#include "watchctl/trace/flow/flow_reader.h"
#include "watchctl/view/words/json.h"

#define FLOW_SHOWN_LOSSES 10000u

/* Events that are missing from that time on. */
struct flow_loss {
	uint64_t ns, count; /* count 0: not known */
};

struct flow_shown {
	struct flow_graph *g;
	const struct flow_node *node;
	const struct flow_edge *edge;
	const struct flow_threads *threads;
	size_t nnodes, nedges;
	struct flow_span span;
	struct flow_wait_stacks stacks;
	struct flow_attached attached; /* what the logs attached to it have */
	struct flow_damage damage;
	struct flow_loss *loss; /* the first FLOW_SHOWN_LOSSES of them */
	size_t nlosses, losses_cap;
	uint64_t more_losses; /* that found no room there */
};

/* Reads all of @log by the rules that were asked for, see flow_rules_new(); @ret is the caller's to flow_shown_deinit(). Damage and losses are said on stderr. */
struct wc_error *flow_shown_read(const char *log, const char *const *rules, size_t nrules,
				 struct flow_shown *ret);

/* A time in a text, which @option got: nothing after it is read. NULL: all is. */
struct flow_until {
	const char *option, *time;
	bool utc;
};

/* Likewise; also feeds @seen, if there is one, which is the caller's. WC_EUSAGE: no such time in the log. */
struct wc_error *flow_shown_read_until(const char *log, const char *const *rules, size_t nrules,
				       const struct flow_until *until, struct seen *seen,
				       struct flow_shown *ret);
void flow_shown_deinit(struct flow_shown *s);

/* @option wants a time, @text is it: CLOCK_MONOTONIC. */
struct wc_error *flow_shown_time(const struct flow_shown *s, const char *option, const char *text, bool utc,
				 uint64_t *ret);

/* CLOCK_REALTIME of a CLOCK_MONOTONIC, or that again where the log does not say. */
uint64_t flow_shown_real(const struct flow_shown *s, uint64_t ns);

/* Members of an object that is open; times are CLOCK_MONOTONIC, as in all JSON of logs: pid, tid, comm of a node. */
void flow_json_thread(struct json *j, const struct flow_shown *s, uint32_t node);
/* id, the thread, times, what. */
void flow_json_node(struct json *j, const struct flow_shown *s, uint32_t node);
/* The stack of the wait @e, in a unit or (weak) between two; NULL: none was taken, or it is no wait. */
const struct flow_wait_stack *flow_shown_stack(const struct flow_shown *s, const struct flow_edge *e);

/* kind, strong, from, to, evidence, open; of a wait, and of a weak edge, the stack, if there is one. */
void flow_json_edge(struct json *j, const struct flow_shown *s, const struct flow_edge *e);

#endif
