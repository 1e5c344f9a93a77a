/*
 * record_trigger - what a flight recorder does when its condition holds: it ends, or what it has is saved
 * into a log of its own by a process of its own, so that the recording is never held up.
 */
#ifndef WATCHCTL_CLI_REQUEST_RECORD_TRIGGER_H
#define WATCHCTL_CLI_REQUEST_RECORD_TRIGGER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "watchctl/view/event/annotate.h"

enum trigger_action { TRIGGER_SNAPSHOT, TRIGGER_STOP };

struct record_trigger_options {
	const char *condition; /* see watchctl/view/trigger/trigger.h */
	const char *const *watches;
	unsigned int nwatches;
	enum trigger_action action;
	uint64_t after_ns;	/* how much is recorded before that is done */
	uint64_t last_ns;	/* of a snapshot: how much of it; 0: all */
	unsigned int snapshots; /* at most so many */
	const char *log;	/* snapshots are LOG.trigger-1, -2 ... */
	bool json;
	FILE *out;
	volatile sig_atomic_t *stop; /* set to end the recording */
};

struct record_trigger;

/* Errors as of trigger_compile(). @o and its texts must outlive it; all events that it sees go to @next
 * first. */
struct wc_error *record_trigger_open(const struct record_trigger_options *o, struct event_sink next,
				     struct record_trigger **ret);

struct event_sink record_trigger_sink(struct record_trigger *r);

/* A few times a second: does what is due. */
struct wc_error *record_trigger_tick(struct record_trigger *r);

/*
 * The recording has ended, its log is whole: saves a snapshot that is due, waits for one that is being saved,
 * frees. Accepts NULL.
 */
void record_trigger_close(struct record_trigger *r);

#endif
