/*
 * callpage - the calls of a log as one HTML file that needs nothing else: a lane for each thread, calls as bars, a tree and a
 * flame graph by time, functions, single calls with their parameters; to be looked at in a browser, and searched.
 *
 * A view: it collects while the log goes by, in a bounded space (about 60 bytes a call, CALLPAGE_CALLS of them, and
 * CALLPAGE_TEXT_BYTES of texts). What found no room is counted, and said in the page.
 */
#ifndef WATCHCTL_VIEW_CALLPAGE_CALLPAGE_H
#define WATCHCTL_VIEW_CALLPAGE_CALLPAGE_H

#include <stdio.h>

#include "watchctl/view/event/annotate.h"

struct replay_ending;

struct callpage_options {
	const char *log;   /* how the user calls it */
	size_t calls;	   /* 0: CALLPAGE_CALLS; smaller ones are for tests */
	size_t text_bytes; /* 0: CALLPAGE_TEXT_BYTES */
};

#define CALLPAGE_CALLS ((size_t)2000000)
#define CALLPAGE_TEXT_BYTES ((size_t)16000000)

struct callpage;

/*
 * Adds itself to @a's views; @a wants ANNOTATE_CALLS, _STACK and _TEXT. Both @a and the texts of @o must outlive it. NULL: no
 * memory.
 */
struct callpage *callpage_new(struct annotate *a, const struct callpage_options *o);

/* The log is one of calls: a recording of them began, or there are some, and nothing that a page of watches shows. */
bool callpage_has_calls(const struct callpage *p);

/* Nothing that this page or one of watches shows is in the log, but for stacks that belong to events of the system: flow_stack_tag.h. */
bool callpage_is_empty(const struct callpage *p);

/* After the last event. @ending: how the log ended. Errors of @out are left to ferror(). */
struct wc_error *callpage_write(struct callpage *p, const struct replay_ending *ending, FILE *out);

/* Accepts NULL. Before the annotate is freed. */
void callpage_free(struct callpage *p);
void callpage_freep(struct callpage **p);

#endif
