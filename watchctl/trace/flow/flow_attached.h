/*
 * flow_attached - which other logs a log of the system's events belongs together with: they have accesses of the same time, by the same
 * threads. A note in the log says so, FLOW_ATTACHED and the other log's path, absolute.
 */
#ifndef WATCHCTL_TRACE_FLOW_FLOW_ATTACHED_H
#define WATCHCTL_TRACE_FLOW_FLOW_ATTACHED_H

#define FLOW_ATTACHED "attached log: "
#define FLOW_ATTACHED_MOST 16

#endif
