/*
 * reorder - puts accesses and captures into the order of their times. A log has them in the order in which
 * they were collected: from several rings, a poll of one after the other, so that what happened first may
 * come later, by as much as lies between two polls.
 *
 * They are held back until the stream is WINDOW further, or too many wait. What reports a new fact that they
 * may refer to is passed on at once; what changes an earlier one (a module, other code at an address, a
 * program executed) lets all that wait go first.
 */
#ifndef WATCHCTL_VIEW_EVENT_REORDER_H
#define WATCHCTL_VIEW_EVENT_REORDER_H

#include "watchctl/trace/event.h"

#define REORDER_WINDOW_NS 2000000000u
#define REORDER_MAX 65536 /* events that wait, once there are tags */
#define REORDER_FEW 4096  /* before: accesses alone come in their order already */

struct reorder;

/* Events go on to @to. NULL: no memory. */
struct reorder *reorder_new(struct event_sink to);

/* Fails for lack of memory, and as @to does. */
struct event_sink reorder_sink(struct reorder *r);

/* After the last event: lets all that wait go. */
struct wc_error *reorder_flush(struct reorder *r);

/* Accepts NULL. */
void reorder_free(struct reorder *r);
void reorder_freep(struct reorder **r);

#endif
