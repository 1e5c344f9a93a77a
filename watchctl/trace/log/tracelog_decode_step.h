/* tracelog_decode_step - as tracelog_decode, of the events of a step recording. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_DECODE_STEP_H
#define WATCHCTL_TRACE_LOG_TRACELOG_DECODE_STEP_H

#include "watchctl/trace/log/tracelog_decode.h"
#include "watchctl/trace/log/tracelog_get.h"

/*
 * Fills @ret, whose time is set, from the fields of the event @id: EVENT_RECORDING to EVENT_INPUT or
 * TRACELOG_ID_RETURN_ERROR. What makes no sense sets c->bad. Fails only for lack of memory.
 */
struct wc_error *tracelog_decode_step(struct tracelog_decoder *d, uint16_t id, struct cursor *c,
				      struct trace_event *ret);

#endif
