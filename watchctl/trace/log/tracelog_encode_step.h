/* tracelog_encode_step - as tracelog_encode, of the events of a step recording. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_ENCODE_STEP_H
#define WATCHCTL_TRACE_LOG_TRACELOG_ENCODE_STEP_H

#include "watchctl/trace/log/tracelog_encode.h"

/* The fields of @e, which is one of EVENT_RECORDING to EVENT_INPUT. */
void encode_step_fields(struct encoder *c, const struct trace_event *e, uint32_t stack);

#endif
