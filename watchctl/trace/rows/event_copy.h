/*
 * event_copy - an event that outlives the call that delivered it: a copy with all it points to behind it. What an
 * event points to is said by its rows in tracelog_rows.h; what is not in logs (a module's open_path, a missing_event) is
 * not copied along.
 */
#ifndef WATCHCTL_TRACE_ROWS_EVENT_COPY_H
#define WATCHCTL_TRACE_ROWS_EVENT_COPY_H

#include <stddef.h>

#include "watchctl/trace/event.h"

/* Bytes that what @e points to takes. */
size_t event_copy_size(const struct trace_event *e);

/* Into *@to, and event_copy_size() bytes at @behind, which is aligned to 8. */
void event_copy(const struct trace_event *e, struct trace_event *to, void *behind);

/* Both in one block, to be freed by free(). NULL: no memory. */
struct trace_event *event_dup(const struct trace_event *e);

#endif
