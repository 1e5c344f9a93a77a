/*
 * event_fields - what an event has, field by field, for those who show an event without knowing it: the rows of
 * tracelog_rows.h, but for lists, stacks, registers and what is written by hand.
 */
#ifndef WATCHCTL_TRACE_ROWS_EVENT_FIELDS_H
#define WATCHCTL_TRACE_ROWS_EVENT_FIELDS_H

#include <stddef.h>

#include "watchctl/trace/event.h"

enum event_field_kind {
	FIELD_NUMBER,
	FIELD_SIGNED,
	FIELD_HEX, /* an address, or bits */
	FIELD_FLAG,
	FIELD_TEXT,
	FIELD_BYTES,
};

struct event_field {
	const char *name; /* as in the log */
	enum event_field_kind kind;
	union {
		uint64_t number;  /* _NUMBER, _HEX, _FLAG */
		int64_t i;	  /* _SIGNED */
		const char *text; /* _TEXT: also the word of an enumeration, in @word if it has to be made */
		const uint8_t *bytes;
	};
	size_t len; /* _BYTES */
	char word[32];
};

/*
 * Gives each field that is there to @each, in the order of the log; texts that are NULL or empty, and what
 * another field says is not known, are not. Valid during the call.
 */
void event_fields(const struct trace_event *e, void (*each)(void *ctx, const struct event_field *f),
		  void *ctx);

/* As in the log's metadata; NULL: it is in none. */
const char *event_name(enum event_type type);

/* Of the thread that it is of. False: it is of none. */
bool event_thread(const struct trace_event *e, int32_t *pid, int32_t *tid);

#endif
