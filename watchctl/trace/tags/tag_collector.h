/*
 * tag_collector - the collector's side of watchctl/code/unwind/capture_wire.h: takes the captures of one copy of
 * libstackwalk out of a program's memory, and puts them as events. Knows neither how that memory is reached
 * nor whose process it is: watchctl reads another process, libstackwalk's own log its own.
 *
 * Everything that is read is hostile. A program that lies gets false captures of itself into the log; no
 * more.
 *
 * Puts EVENT_THREAD, EVENT_TAG, EVENT_CAPTURE, EVENT_LOST and EVENT_NOTE; of each poll the captures of all
 * threads in order of time. Needs no library but libc.
 */
#ifndef WATCHCTL_TRACE_TAGS_TAG_COLLECTOR_H
#define WATCHCTL_TRACE_TAGS_TAG_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/trace/tags/tag_host.h"

#define TAG_LEASE_NS 5000000000ull  /* a collector silent for so long is taken for dead by the program */
#define TAG_POLL_MAX_NS 20000000ull /* the longest pause between two polls */

struct tag_settings {
	uint32_t frames;    /* most of a stack, 1..CAPTURE_FRAMES */
	uint64_t ring_size; /* bytes for each thread, CAPTURE_RING_MIN.._MAX, a power of two */
	uint32_t pid;	    /* ours: what another collector is reported */
	uint64_t lease_ns;  /* TAG_LEASE_NS, but in tests */
	bool shared_flag;   /* another collector of ours has the same flag, and sees to it */
};

enum tag_state {
	TAGS_COLLECTING,
	/*
	 * The program has ended, executed another, or unloaded the library. If it did so in good order, the
	 * rest was put and the counts are final; tag_collector_stop() reports the losses all the same.
	 */
	TAGS_GONE,
	TAGS_TAKEN_OVER, /* another collector has begun: what comes after this is its own */
};

struct tag_poll {
	enum tag_state state;
	uint64_t wait_ns;  /* until the next poll should be; 0: there is more */
	uint64_t until_ns; /* all that was captured before has been put, but for what was being written; 0:
			      there is more */
	uint64_t captures; /* put by this poll */
};

struct tag_counts {
	bool in_order;	   /* the program could be asked at the end */
	bool has_counted;  /* and had not stopped by itself in between */
	uint64_t counted;  /* captures asked for since the start, by the program's own count */
	uint64_t recorded; /* put */
	uint64_t lost_full, lost_no_ring;
	uint64_t lost_unfinished; /* begun, and never ended: by longjmp, by the death of the thread ... */
};

struct tag_collector;

/*
 * The library whose descriptor is at @descriptor, in a module that spans [@start, @end). *ret is NULL without
 * an error when that module has not been relocated yet, or is about to be unloaded. WC_ENOTSUP: another
 * version of the library; WC_ETARGET: its memory cannot be read, or holds no descriptor.
 */
struct wc_error *tag_collector_open(const struct tag_host *host, uint64_t descriptor, uint64_t start,
				    uint64_t end, struct tag_collector **ret);

/*
 * From now on captures are recorded. WC_ENOTSUP with sys_errno EBUSY: somebody else
 * collects, who is named. May wait, as long as
 * the lease of one that seems to have died; *@stop (may be NULL), when it becomes true, ends that wait.
 */
struct wc_error *tag_collector_start(struct tag_collector *c, const struct tag_settings *s,
				     const volatile int *stop);

/*
 * The address of the flag. Copies of the library in one program may share one, by the rules of dynamic
 * linking; then they share its functions too, and all but one are never called.
 */
uint64_t tag_collector_flag(const struct tag_collector *c);

/* Puts what is there. After anything but TAGS_COLLECTING nothing more will come. Errors are the sink's. */
struct wc_error *tag_collector_poll(struct tag_collector *c, struct tag_poll *ret);

/* Puts the rest, shows what was lost. The program is as before; the counts are final. */
struct wc_error *tag_collector_stop(struct tag_collector *c);

void tag_collector_counts(const struct tag_collector *c, struct tag_counts *ret);

/* The modules have changed: know() is to be asked anew about every stack. */
void tag_collector_forget_stacks(struct tag_collector *c);

/* Accepts NULL, and one that was not stopped: then the program finds out by itself, after the lease. */
void tag_collector_free(struct tag_collector *c);

#endif
