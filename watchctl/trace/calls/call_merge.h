/*
 * call_merge - the threads of LOG/calls.N as one stream of EVENT_CALL, EVENT_RETURN and, of events of the program's
 * own, EVENT_PROBE in the order of time, beside which EVENT_LOST, _NOTE and _MISSING say where something is missing.
 *
 * An exit ends the innermost open call of its file. An exit without one is of a call that began before the recording
 * did, or in a gap: it is counted, and no event. Behind a gap all that was open before is over (RETURN_UNKNOWN); what
 * is open when a file ends is RETURN_NEVER. Calls of functions that no EVENT_FUNCTION has told are left out and
 * counted; what they call stands in their place.
 */
#ifndef WATCHCTL_TRACE_CALLS_CALL_MERGE_H
#define WATCHCTL_TRACE_CALLS_CALL_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/trace/calls/call_reader.h"
#include "watchctl/trace/event.h"

struct call_merge;

/* WC_ELOG as of call_reader_open(). *@ret is NULL where the log has no calls. */
struct wc_error *call_merge_open(const char *path, struct call_merge **ret);
void call_merge_close(struct call_merge *m); /* accepts NULL */
void call_merge_closep(struct call_merge **m);

/*
 * The log has told a function, the type of a value, or a type of the program's own events: EVENT_FUNCTION, EVENT_TYPE,
 * EVENT_PROBE_SITE with PROBE_TACTIC_SOURCE; others are nothing to it. False: no memory.
 */
bool call_merge_tell(struct call_merge *m, const struct trace_event *e);

/*
 * The next event that happened before @before_ns (UINT64_MAX: at all), valid until the next call; *@ret is NULL: there
 * is none. Fails only for lack of memory.
 */
struct wc_error *call_merge_next(struct call_merge *m, uint64_t before_ns, const struct trace_event **ret);

/* From the first event on, what call_merge_read_again() needs is kept: up to some bytes an event. */
void call_merge_keep_positions(struct call_merge *m);

/* That of the call, return or event of the program's own that call_merge_next() gave last: 1.. in this order. */
uint64_t call_merge_position(const struct call_merge *m);

/*
 * Makes the event at @position again, valid until the next call for @m. Its parent and depth are not told, and of a
 * return neither its call; @function is that of a return's call, and nothing to others. From then on
 * call_merge_next() may not be called. *@ret is NULL: there is none, or the file is another one now. Fails only for lack
 * of memory.
 */
struct wc_error *call_merge_read_again(struct call_merge *m, uint64_t position, uint32_t function,
				       const struct trace_event **ret);

struct call_merge_sums {
	uint64_t calls;		   /* that were passed on */
	uint64_t exits_before;	   /* exits whose calls began before the recording */
	uint64_t exits_behind_gap; /* exits whose calls began in a gap, or before it */
	uint64_t unknown;	   /* calls that were left out */
	uint32_t unknown_function; /* that of the first of them */
	uint64_t last_ns;	   /* of the last event; 0: none */
};

/* Of what has been read so far. */
void call_merge_sums(const struct call_merge *m, struct call_merge_sums *ret);
void call_merge_damage(const struct call_merge *m, struct call_damage *ret);

/* Which share of the packets was read, 0 to 1. */
double call_merge_progress(const struct call_merge *m);

/* When the last event of all threads happened, as far as the heads of packets say; 0: there is none. */
uint64_t call_merge_last_time(const struct call_merge *m);

#endif
