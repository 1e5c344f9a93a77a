/* tracelog_encode_probe - the fields of what a probe has recorded, which are written by hand: LOG_PROBE. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_ENCODE_PROBE_H
#define WATCHCTL_TRACE_LOG_TRACELOG_ENCODE_PROBE_H

#include "watchctl/trace/log/tracelog_encode.h"

/* @stack: its number, or TRACELOG_NO_STACK; @before_ns: how much earlier than its timestamp it was. */
void encode_probe(struct encoder *c, const struct probe_event *e, uint32_t stack, uint64_t before_ns);

#endif
