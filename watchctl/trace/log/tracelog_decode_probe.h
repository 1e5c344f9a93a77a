/* tracelog_decode_probe - what a probe has recorded, which is read by hand: LOG_PROBE. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_DECODE_PROBE_H
#define WATCHCTL_TRACE_LOG_TRACELOG_DECODE_PROBE_H

#include "watchctl/trace/log/tracelog_decode.h"
#include "watchctl/trace/log/tracelog_get.h"

/* Fills @ret, an EVENT_PROBE whose time is set, from its fields. What makes no sense sets c->bad. */
void tracelog_decode_probe(struct tracelog_decoder *d, struct cursor *c, struct trace_event *ret);

#endif
