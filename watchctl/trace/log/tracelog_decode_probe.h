/* tracelog_decode_probe - the events of probes, apart from tracelog_decode.c only for its length. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_DECODE_PROBE_H
#define WATCHCTL_TRACE_LOG_TRACELOG_DECODE_PROBE_H

#include "watchctl/trace/log/tracelog_decode.h"
#include "watchctl/trace/log/tracelog_get.h"

/*
 * Fills @ret, whose time is set, from the fields of the event @id: EVENT_PROBE_SITE to EVENT_PROBE_TOTAL. What makes no
 * sense sets c->bad. Fails only for lack of memory.
 */
struct wc_error *tracelog_decode_probe(struct tracelog_decoder *d, uint16_t id, struct cursor *c,
				       struct trace_event *ret);

#endif
