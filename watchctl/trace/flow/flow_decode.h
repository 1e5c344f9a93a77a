/* flow_decode - the fields of one event, out of its words. */
#ifndef WATCHCTL_TRACE_FLOW_FLOW_DECODE_H
#define WATCHCTL_TRACE_FLOW_FLOW_DECODE_H

#include <stdint.h>

#include "watchctl/trace/flow/flow_reader.h"

/* @word: a whole event, no time. Sets all of @ret but for its time, CPU and thread. */
void flow_decode(const uint32_t *word, struct flow_event *ret);

#endif
