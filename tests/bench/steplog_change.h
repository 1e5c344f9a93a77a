/* steplog_change - puts one difference into a stream of calls. */
#ifndef TESTS_BENCH_STEPLOG_CHANGE_H
#define TESTS_BENCH_STEPLOG_CHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/trace/event.h"

enum change_kind {
	CHANGE_NONE,
	CHANGE_VALUE,
	CHANGE_RESULT,
	CHANGE_ERROR,
	CHANGE_MISSING,
	CHANGE_EXTRA,
	CHANGES
};

/* Stands between the program and the log: what the program does is not disturbed by it. */
struct change {
	struct event_sink to;
	enum change_kind kind;
	uint64_t at;	   /* the call; moves on to the first one that can be changed in that way */
	uint64_t dropping; /* the call that is missing is open */
	uint64_t dropped, added;
	bool done;
};

/* "value@777". False: it is not of that form. */
bool change_parse(const char *text, struct change *ret);

/* For struct event_sink; @ctx is the struct change. What it does is printed as a JSON object. */
struct wc_error *change_put(void *ctx, const struct trace_event *e);

#endif
