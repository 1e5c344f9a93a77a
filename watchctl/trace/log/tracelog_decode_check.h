/*
 * tracelog_decode_check - what must hold of an event once its fields are read, what it refers to, and what later ones
 * need to know of it. Inside of the decoder.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_DECODE_CHECK_H
#define WATCHCTL_TRACE_LOG_TRACELOG_DECODE_CHECK_H

#include "watchctl/trace/log/tracelog_decode.h"

/* Fields that are not in struct trace_event. */
struct decode_refs {
	uint32_t stack;	    /* its number */
	uint64_t before_ns; /* how much earlier than its timestamp it was */
};

/* *@bad: it is damage. *@known: of a flight recorder, this reader has seen it before. Fails for lack of memory. */
struct wc_error *tracelog_decode_check(struct tracelog_decoder *d, struct trace_event *e,
				       const struct decode_refs *refs, bool *bad, bool *known);

/* The process of a thread, from now on. False: no memory. */
bool tracelog_keep_process(struct tracelog_decoder *d, int32_t pid, int32_t tid);

/* @stack NULL: it is lost, and where the access was made is known from its registers. */
void tracelog_decode_access_stack(struct tracelog_decoder *d, struct access_event *a,
				  const struct tracelog_stack *stack);

#endif
