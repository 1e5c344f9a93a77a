/* tag_collector_impl - what the files of the collector share: its state. tag_events.c turns what was taken
 * into events. */
#ifndef WATCHCTL_TRACE_TAGS_TAG_COLLECTOR_IMPL_H
#define WATCHCTL_TRACE_TAGS_TAG_COLLECTOR_IMPL_H

#include "watchctl/base/tsc_clock.h"
#include "watchctl/trace/tags/tag_collector.h"

#define TAG_STACKS 4096u

/* The records of one ring in the buffer. */
struct tag_run {
	struct tag_ring_state *ring;
	size_t at, end;
};

struct tag_ring_state {
	struct tag_ring r;
	uint64_t listed; /* the address in the program's list when it was looked at; a bad one is not tried
			    again */
	bool known;	 /* thread is filled in, and told */
	struct tag_thread thread;
};

struct tag_collector {
	struct tag_host host;
	struct capture_descriptor program;
	struct tag_settings settings;
	struct tsc_clock clock;
	bool has_clock; /* false: the times are those of the polls */
	uint64_t session, start_ns, polled_ns, lease;
	enum tag_state state;
	bool started, stopped;
	bool lapsed; /* the program had switched itself off for a while */
	bool ended;  /* it says that nothing more will come */
	bool let_go; /* and we have taken all, and told it so */
	bool muted;  /* the sink has failed: nothing more goes there */

	struct tag_ring_state *ring; /* CAPTURE_RINGS */
	uint32_t nrings, first;	     /* where the next poll begins */
	uint64_t listed[CAPTURE_RINGS];
	uint8_t *buffer;
	struct tag_run *run;
	uint32_t nruns;

	uint32_t name_id[CAPTURE_NAMES]; /* + 1; 0: not looked up yet */
	uint64_t seen[TAG_STACKS];	 /* hashes of stacks that know() was asked about */
	uint64_t no_ring_before, no_ring;
	uint64_t retired_calls, retired_lost; /* of rings whose place another one took */
	uint64_t recorded;
	uint64_t reported_full, reported_no_ring, reported_ns;
	struct tag_counts counts; /* final, when stopped */
};

/* From the program's memory. */
static inline bool tag_get(const struct tag_collector *c, uint64_t addr, void *buf, size_t len)
{
	return c->host.memory.read(c->host.memory.ctx, addr, buf, len);
}

/* Reports the program that its collector is alive, at the time stamp @now. */
void tag_keep_alive(const struct tag_collector *c, uint64_t now);

/* To the sink. */
struct wc_error *tag_put(struct tag_collector *c, const struct trace_event *e);

/* The runs in the buffer, merged; none are left. */
struct wc_error *tag_put_runs(struct tag_collector *c);

#endif
