#include "watchctl/flow/rules/flow_edge_kind.h"

const char *const flow_edge_kind_names[FLOW_EDGE_KINDS] = {
	[FLOW_EDGE_WAKEUP] = "wakeup",	   [FLOW_EDGE_MESSAGE] = "message", [FLOW_EDGE_TIMER] = "timer",
	[FLOW_EDGE_WORK] = "work",	   [FLOW_EDGE_LOCK] = "lock",	    [FLOW_EDGE_DATA] = "data",
	[FLOW_EDGE_SPAWN] = "spawn",	   [FLOW_EDGE_EXIT] = "exit",	    [FLOW_EDGE_IO] = "io",
	[FLOW_EDGE_WAIT_FOR] = "wait_for", [FLOW_EDGE_WEAK] = "weak",
};
