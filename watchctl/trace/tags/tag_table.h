/* tag_table - the tags of a log: a name or a number -> its id, reported to the sink before its first use. */
#ifndef WATCHCTL_TRACE_TAGS_TAG_TABLE_H
#define WATCHCTL_TRACE_TAGS_TAG_TABLE_H

#include "watchctl/base/map64.h"
#include "watchctl/trace/event.h"

#define TAG_TABLE_MAX (1u << 19) /* remembered at once */

/* Zero-initialised is empty. One for all that write into the same log. */
struct tag_table {
	struct map64 numbers; /* -> id + 1, as the value's bits */
	struct map64 names;   /* hash -> struct tag_name, a list of those that share it */
	uint32_t next;
};

/*
 * Fails for lack of memory, or with the sink's error. There is a bound on what is remembered, because a
 * program may use any number of tags: a name or number that was forgotten gets another id when it comes
 * again. Ids count up, and only the last TAG_TABLE_MAX of them are ever given again.
 */
struct wc_error *tag_table_name(struct tag_table *t, const char *name, const struct event_sink *sink,
				uint64_t time_ns, uint32_t *ret);
struct wc_error *tag_table_number(struct tag_table *t, uint64_t number, const struct event_sink *sink,
				  uint64_t time_ns, uint32_t *ret);

void tag_table_deinit(struct tag_table *t);

#endif
