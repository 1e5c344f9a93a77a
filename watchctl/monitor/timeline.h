/*
 * timeline - puts two streams of events into one order of time: accesses, from an engine, and captures, from
 * a collector, each of which comes in bursts and in order of its own.
 *
 * Both are held until nothing earlier can come any more. All other events go through at once, ahead of what
 * is held: they are reported before what refers to them. But for those that end something (a module, a program,
 * the session), and for a module in the place of one that has gone: what is held goes first.
 */
#ifndef WATCHCTL_MONITOR_TIMELINE_H
#define WATCHCTL_MONITOR_TIMELINE_H

#include "watchctl/trace/event.h"

struct timeline;

struct timeline *timeline_new(struct event_sink next); /* NULL: no memory */

struct event_sink timeline_sink(struct timeline *t);

/* Nothing from before @until_ns will come any more (or if it does, late): it goes on. UINT64_MAX: all. */
struct wc_error *timeline_release(struct timeline *t, uint64_t until_ns);

void timeline_free(struct timeline *t); /* accepts NULL; what is held is dropped */

#endif
