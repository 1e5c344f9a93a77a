/*
 * call_records - what the probes of calls record -> the events of a log. Which call an entry begins and an end ends is
 * watchctl/step/model/track.h's business; here functions are named, and all is counted.
 */
#ifndef WATCHCTL_MONITOR_CALLS_CALL_RECORDS_H
#define WATCHCTL_MONITOR_CALLS_CALL_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/monitor/calls/call_arguments.h"
#include "watchctl/monitor/calls/call_files.h"
#include "watchctl/monitor/calls/call_functions.h"
#include "watchctl/monitor/calls/call_range.h"
#include "watchctl/patch/probe/call_buffers.h"
#include "watchctl/step/model/step_open.h"
#include "watchctl/step/model/step_values.h"
#include "watchctl/step/model/track.h"
#include "watchctl/trace/event.h"

struct call_thread {
	pid_t tid;
	bool is_missed; /* it was gone at the last look */
};

struct call_records {
	struct call_functions *functions; /* the owner's */
	struct event_sink sink;
	struct call_files *files;	  /* where calls go; NULL: they are events. Not owned */
	struct call_arguments *arguments; /* NULL: no values are recorded. Not owned */
	struct call_range *range;	  /* what `watchctl step` records; NULL: all. Not owned */
	uint64_t max_rate; /* calls of a function in a second; what is more is not recorded. 0: all */
	/* Shows the mapping that a thread's stack is in. @tid as the program numbers it. NULL: nobody wants to know. */
	void (*found_stack)(void *ctx, uint32_t tid, uint64_t start, uint64_t end, bool is_main);
	void (*switch_site)(void *ctx, uint32_t site, enum call_off to);
	void *switch_ctx;
	struct track *track;
	struct step_open open; /* calls whose functions have plans */
	struct map64 met;      /* threads: tid -> not NULL */
	struct call_thread *thread;
	size_t nthreads, thread_cap;
	pid_t last_tid; /* of the last entry; 0: none */
	pid_t pid;
	bool exited; /* the process, before the end */
	bool execed; /* ... it executes another program */
	uint64_t calls, returns;
	bool loads; /* of a choice: the program has loaded libraries */
	uint64_t untyped,
		untyped_functions;  /* calls of functions that were planned without types, and those */
	uint64_t without_begin;	    /* ends of calls that had begun before they were recorded */
	uint64_t began_ns, last_ns; /* the last record's time */
	uint8_t values[STEP_VALUES_MAX];
	/* Of call_records_end(): */
	uint64_t called, lost, switched_off;
};

struct wc_error *call_records_init(struct call_records *r, struct call_functions *functions,
				   struct event_sink sink);
void call_records_deinit(struct call_records *r); /* accepts zeros */

/* Values are recorded from now on: @a, which is not owned, has their plans. */
void call_records_set_arguments(struct call_records *r, struct call_arguments *a);

/* Nothing has come yet: the range begins, if it begins at once. */
struct wc_error *call_records_begin_range(struct call_records *r);

/* Of each thread in the order of time. @tid as we number it. */
struct wc_error *call_records_take(struct call_records *r, const struct call_passed *c, uint64_t time_ns,
				   pid_t tid);

/* Tells a function, if it was not told yet: calls that go into files can be read only if that was before. */
struct wc_error *call_records_tell_function(struct call_records *r, uint32_t function);

/* Once a second: ends the calls of threads that have gone. */
struct wc_error *call_records_look_at_threads(struct call_records *r);

/* Nothing comes any more: ends what is open, reports losses, what was switched off, and the summary. */
struct wc_error *call_records_end(struct call_records *r);

#endif
