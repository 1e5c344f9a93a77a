/* tracelog_encode_probe - the fields of the events of probes, apart from tracelog_encode.c only for its length. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_ENCODE_PROBE_H
#define WATCHCTL_TRACE_LOG_TRACELOG_ENCODE_PROBE_H

#include "watchctl/trace/log/tracelog_encode.h"

/* The fields of @e, an EVENT_PROBE_SITE or EVENT_PROBE_TOTAL. */
void encode_probe_fields(struct encoder *c, const struct trace_event *e);

/* @stack: its number, or TRACELOG_NO_STACK; @before_ns: how much earlier than its timestamp it was. */
void encode_probe(struct encoder *c, const struct probe_event *e, uint32_t stack, uint64_t before_ns);

#endif
