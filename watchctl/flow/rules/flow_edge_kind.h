/* flow_edge_kind - the kinds of edges of the graph of causes, and their names. */
#ifndef WATCHCTL_FLOW_RULES_FLOW_EDGE_KIND_H
#define WATCHCTL_FLOW_RULES_FLOW_EDGE_KIND_H

enum flow_edge_kind {
	FLOW_EDGE_WAKEUP,
	FLOW_EDGE_MESSAGE,
	FLOW_EDGE_TIMER,
	FLOW_EDGE_WORK,
	FLOW_EDGE_LOCK,
	FLOW_EDGE_DATA,
	FLOW_EDGE_SPAWN,
	FLOW_EDGE_EXIT,
	FLOW_EDGE_IO,
	FLOW_EDGE_WAIT_FOR,
	FLOW_EDGE_WEAK,
	FLOW_EDGE_KINDS,
};

/* By kind: "wakeup", "wait_for" ... */
extern const char *const flow_edge_kind_names[FLOW_EDGE_KINDS];

#endif
