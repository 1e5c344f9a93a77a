/*
 * tag_events - the records that the collector took out of the rings of a program, as events: merged by time, with
 * threads and names made known. It calls nothing of the collector, which leads.
 */
#ifndef WATCHCTL_TRACE_TAGS_TAG_EVENTS_H
#define WATCHCTL_TRACE_TAGS_TAG_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/time/tsc_clock.h"
#include "watchctl/trace/tags/tag_host.h"
#include "watchctl/trace/tags/tag_ring.h"

#define TAG_STACKS 4096u

struct tag_ring_state {
	struct tag_ring r;
	uint64_t listed; /* the address in the program's list when it was looked at; a bad one is not tried
			    again */
	bool known;	 /* thread is filled in, and reported */
	struct tag_thread thread;
};

/* The records of one ring in the buffer. */
struct tag_run {
	struct tag_ring_state *ring;
	size_t at, end;
};

struct tag_events {
	struct tag_host host;
	uint64_t names; /* the address of the program's table */
	struct tsc_clock clock;
	bool has_clock;		      /* false: the times are those of the polls */
	uint64_t start_ns, polled_ns; /* no event is before, or after */
	bool muted;		      /* the sink has failed: nothing more goes there */
	uint64_t recorded;
	uint8_t *buffer;     /* the records of one poll */
	struct tag_run *run; /* CAPTURE_RINGS */
	uint32_t nruns;
	uint32_t name_id[CAPTURE_NAMES]; /* + 1; 0: not looked up yet */
	uint64_t seen[TAG_STACKS];	 /* hashes of stacks that know() was asked about */
};

/* @buffer: its size in bytes. False: no memory; tag_events_deinit() is needed all the same. */
bool tag_events_init(struct tag_events *v, const struct tag_host *host, uint64_t names, size_t buffer);
void tag_events_deinit(struct tag_events *v);

/* To the sink, as long as that takes it. */
struct wc_error *tag_events_put(struct tag_events *v, const struct trace_event *e);

/* Whole records of @ring in the buffer, from @at to @end: one run for each ring. */
void tag_events_add_run(struct tag_events *v, struct tag_ring_state *ring, size_t at, size_t end);
void tag_events_drop_runs(struct tag_events *v);

/*
 * After tag_events_begin(), the runs are merged into the sink, for some @ticks of the time stamp counter: until nruns is 0,
 * call it again.
 */
void tag_events_begin(struct tag_events *v);
struct wc_error *tag_events_merge(struct tag_events *v, uint64_t ticks);

/* know() is asked about each stack once more. */
void tag_events_forget_stacks(struct tag_events *v);

#endif
