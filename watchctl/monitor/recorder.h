/* recorder - the log of a live session: what goes through it is written down and passed on. */
#ifndef WATCHCTL_MONITOR_RECORDER_H
#define WATCHCTL_MONITOR_RECORDER_H

#include "watchctl/trace/log/tracelog.h"

struct recorder;

/* Makes the new log @path; WC_ELOG when that cannot be. Every event is recorded first, then put into @next.
 */
struct wc_error *recorder_open(const char *path, struct event_sink next, struct recorder **ret);

/* As above, for a flight recorder within @b: see tracelog_writer_open_ring(). */
struct wc_error *recorder_open_ring(const char *path, const struct tracelog_bounds *b, struct event_sink next,
				    struct recorder **ret);

struct event_sink recorder_sink(struct recorder *r);

/* Records a note of now, and passes it on to nobody. @text: one line. */
struct wc_error *recorder_note(struct recorder *r, const char *text);

/* What has been put so far survives our end. Call it every half second or so. */
struct wc_error *recorder_flush(struct recorder *r);

/* An error means that the last events are not in the log. Accepts NULL; frees in any case. */
struct wc_error *recorder_close(struct recorder *r);

/* The session came to nothing: the log is removed. Accepts NULL; frees. */
void recorder_discard(struct recorder *r);

#endif
