/*
 * patch_watch - probes in a process and watches of its variables, at the same time and into one sink. What both would tell, the
 * process and its modules, is told once.
 */
#ifndef WATCHCTL_MONITOR_PATCH_PATCH_WATCH_H
#define WATCHCTL_MONITOR_PATCH_PATCH_WATCH_H

#include "watchctl/monitor/monitor.h"
#include "watchctl/monitor/patch/patch_session.h"

struct patch_watch;

/*
 * The probes first, then the watches; of @w, pid and argv are not looked at. Errors as of patch_session_open() and monitor_open(),
 * and then the program is as it was found, or, where it was launched, gone.
 */
struct wc_error *patch_watch_open(const struct patch_session_options *p, const struct monitor_options *w,
				  struct event_sink sink, struct patch_watch **ret);

/* Until something ends either. @limits->count: records of probes. */
struct wc_error *patch_watch_run(struct patch_watch *s, const struct session_limits *limits,
				 enum session_end *ret);

/* Of the probes. */
const struct patch_session *patch_watch_probes(const struct patch_watch *s);

/* See monitor_never_armed(). */
const char *patch_watch_never_armed(const struct patch_watch *s);

/* The watches first, then the probes. Accepts NULL. As patch_session_close() and monitor_close(). */
struct wc_error *patch_watch_close(struct patch_watch *s, struct patch_session_counts *counts);

#endif
