/* replay - a recorded log, fed through a sink from its beginning to where it ends. */
#ifndef WATCHCTL_VIEW_EVENT_REPLAY_H
#define WATCHCTL_VIEW_EVENT_REPLAY_H

#include <stdint.h>
#include <stdio.h>

#include "watchctl/trace/event.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/redact.h"

struct replay_ending {
	/* What is not whole; notes in the stream say so as well, where it is. */
	struct log_damage damage;
	const char *unused; /* of replay_redacted(): a name that nothing in the log has; NULL: none */
};

/* Reads the log at @path into @sink until it ends, or nobody reads @out any more (ferror). */
struct wc_error *replay(const char *path, struct event_sink sink, FILE *out, struct replay_ending *ret);

/* The time of the last event of the log at @path; 0: it has none. Reads all of it. */
struct wc_error *replay_last_time(const char *path, uint64_t *ret);

struct progress;

/* The same, and reports to @p how far it is; the caller begins and ends it. */
struct wc_error *replay_shown(const char *path, struct event_sink sink, FILE *out, struct progress *p,
			      struct replay_ending *ret);

/* The same, without the values that @rules withhold. @p may be NULL. */
struct wc_error *replay_redacted(const char *path, const struct redact_rules *rules, struct event_sink sink,
				 FILE *out, struct progress *p, struct replay_ending *ret);

/* True if the recorder of the log at @path has gone without closing it: what it had in memory is not there. */
bool replay_is_abandoned(const char *path);

#endif
