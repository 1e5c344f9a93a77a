/* call_signature - a function's types from the text of signature_text.h, as events of a log. */
#ifndef WATCHCTL_TRACE_CALLS_CALL_SIGNATURE_H
#define WATCHCTL_TRACE_CALLS_CALL_SIGNATURE_H

#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/trace/event.h"

/* The types that a log has so far. Zero-initialised: none. */
struct signature_types {
	struct map64 by_text; /* a hash, and the type's id plus 1 */
	uint32_t n;
};

void signature_types_deinit(struct signature_types *t);

/* Names are in @text's memory: its own copy. */
struct call_signature {
	struct function_param param[FUNCTION_PARAMS_MAX];
	uint32_t nparams, return_type;
	char *text;
};

/*
 * Puts the types of @text that @t lacks, at @time_ns. A text that is none, as of a damaged program, is one without
 * parameters. *@ret: call_signature_deinit(), in any case.
 */
struct wc_error *call_signature_read(struct signature_types *t, const char *text, uint64_t time_ns,
				     struct event_sink sink, struct call_signature *ret);
void call_signature_deinit(struct call_signature *s);

#endif
