/* replay - a recorded log, fed through a sink from its beginning to where it ends. */
#ifndef WATCHCTL_VIEW_REPLAY_H
#define WATCHCTL_VIEW_REPLAY_H

#include <stdint.h>
#include <stdio.h>

#include "watchctl/trace/event.h"

struct replay_ending {
	uint64_t ignored; /* bytes at the end that could not be read */
	const char *why;  /* a phrase, lives for ever; NULL: the log is whole */
};

/* Reads the log at @path into @sink until it ends, or nobody reads @out any more (ferror). */
struct wc_error *replay(const char *path, struct event_sink sink, FILE *out, struct replay_ending *ret);

#endif
