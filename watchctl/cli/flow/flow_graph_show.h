/*
 * flow_graph_show - prints the graph of causes of a log, one path in it, or rules for it.
 */
#ifndef WATCHCTL_CLI_FLOW_FLOW_GRAPH_SHOW_H
#define WATCHCTL_CLI_FLOW_FLOW_GRAPH_SHOW_H

#include "watchctl/base/error.h"
#include "watchctl/cli/flow/graph/flow_graph_ask.h"

/* To stdout. WC_EUSAGE, WC_ENAME: no such thread or time; WC_ELOG. */
struct wc_error *flow_graph_show(const struct flow_graph_ask *ask);
struct wc_error *flow_path_show(const struct flow_graph_ask *ask);
struct wc_error *flow_blame_show(const struct flow_graph_ask *ask);   /* why something does not go on */
struct wc_error *flow_suggest_show(const struct flow_graph_ask *ask); /* a file of rules */

#endif
