/* flow_graph_words - units and edges of the graph of causes, in words. @buf gets at most FLOW_WORDS bytes. */
#ifndef WATCHCTL_CLI_FLOW_GRAPH_FLOW_GRAPH_WORDS_H
#define WATCHCTL_CLI_FLOW_GRAPH_FLOW_GRAPH_WORDS_H

#include "watchctl/cli/flow/graph/flow_graph_print.h"
#include "watchctl/flow/graph/flow_graph.h"

#define FLOW_WORDS 192

/* "write(2) to pipe 77, 8 bytes"; "signal 10"; "its own timeout of 5.00 ms"; "flag was written". */
void flow_edge_words(const struct flow_shown *s, const struct flow_edge *e, char *buf);

/* The wait before a unit: "after epoll_wait(2)". */
void flow_node_words(const struct flow_node *n, char *buf);

#endif
