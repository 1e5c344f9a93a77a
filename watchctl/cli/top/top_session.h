/* top_session - the recording that `watchctl top` has begun itself, and how it came to its end, in words. */
#ifndef WATCHCTL_CLI_TOP_TOP_SESSION_H
#define WATCHCTL_CLI_TOP_TOP_SESSION_H

#include "watchctl/cli/request/watch_request.h"

struct top_session;

/*
 * Starts it; all is armed then. @log: a new log that stays; NULL: one that goes with the session, and holds
 * the last part of what is recorded. @output: a file for what a launched program prints; NULL: nobody sees
 * it.
 */
struct wc_error *top_session_start(const struct watch_ask *ask, const char *log, const char *output,
				   struct top_session **ret);

const char *top_session_log(const struct top_session *s);

/* Readable when top_session_end() may have something new to say. */
int top_session_fd(const struct top_session *s);

/* NULL: it goes on; else how it ended: "the process has ended". */
const char *top_session_end(struct top_session *s);

/* The same words for any session: "the process has ended". */
const char *top_session_words(enum session_end end);

/* Asks it to end, and waits: the log is whole then. How it went, as the error that `watchctl -v` would give.
 */
struct wc_error *top_session_stop(struct top_session *s);

/* Accepts NULL. */
void top_session_close(struct top_session *s);
void top_session_closep(struct top_session **s);

#endif
