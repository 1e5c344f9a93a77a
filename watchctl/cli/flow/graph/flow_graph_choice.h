/* flow_graph_choice - which units and edges of a log were asked for, by --around, --window and --process. */
#ifndef WATCHCTL_CLI_FLOW_GRAPH_FLOW_GRAPH_CHOICE_H
#define WATCHCTL_CLI_FLOW_GRAPH_FLOW_GRAPH_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/flow/graph/flow_graph_print.h"
#include "watchctl/cli/flow/graph/flow_graph_ask.h"

struct flow_choice {
	const struct flow_shown *s;
	const struct flow_graph_ask *ask;
	uint64_t from_ns, to_ns;
};

/* WC_EUSAGE, WC_ENAME: --process was given, and names no thread that did something. */
struct wc_error *flow_choice_check_process(const struct flow_shown *s, const struct flow_graph_ask *ask);

/* Both must outlive it. WC_EUSAGE, WC_ENAME: there is no such time or thread. */
struct wc_error *flow_choice_make(const struct flow_shown *s, const struct flow_graph_ask *ask,
				  struct flow_choice *ret);

bool flow_choice_has_edge(const struct flow_choice *c, const struct flow_edge *e);

/* Of each node, whether it was asked for, or an edge that was leads from or to it: free() it. NULL: no memory. */
bool *flow_choice_nodes(const struct flow_choice *c);

#endif
