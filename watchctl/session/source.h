/*
 * source - produces events of one process into a sink of its own: watches, probes, a stepper's recording. session.h
 * runs any number of them.
 *
 * Each is opened and closed by functions of its own: what it needs and what its end reports differ. It waits for its
 * own descriptors and children inside pump().
 */
#ifndef WATCHCTL_SESSION_SOURCE_H
#define WATCHCTL_SESSION_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/base/error.h"

enum session_end {
	SESSION_STOPPED, /* asked to */
	SESSION_COUNT,	 /* as many events as were asked for */
	SESSION_TIME,
	SESSION_EXITED, /* the process */
	SESSION_EXECED,
	SESSION_SUPPLANTED, /* another collector has taken the captures; there was nothing else to do */
	SESSION_GAVE_UP,    /* for the process's sake; the note in the log says why */
	SESSION_DONE,	    /* all that was asked for is recorded */
	SESSION_STUCK,	    /* it hangs: nothing happened any more */
	SESSION_PAUSED,	    /* whoever else uses the process has it again: a later run goes on */
};

enum source_state {
	SOURCE_GOES_ON,
	SOURCE_HOLDS, /* it goes on, and a thread of the process waits for the next pump */
	SOURCE_ENDED, /* it is not pumped again */
};

struct source_ops {
	/*
	 * Delivers what is there. If nothing is, and @may_wait, waits for more, 100 ms at most; without @may_wait it
	 * waits for nothing, as another source does. *@end is written with SOURCE_ENDED: how it ended.
	 */
	struct wc_error *(*pump)(void *self, bool may_wait, enum source_state *state, enum session_end *end);
	/* Events delivered so far of those that session_limits.count counts. NULL: none are. */
	uint64_t (*count)(const void *self);
	/*
	 * Asks it to end: pump() delivers what is open and then returns SOURCE_ENDED, with SESSION_STOPPED or a better
	 * reason. Called once a run at most. NULL: it may be left between any two pumps.
	 */
	struct wc_error *(*stop)(void *self);
};

struct source {
	const struct source_ops *ops;
	void *self;
};

#endif
