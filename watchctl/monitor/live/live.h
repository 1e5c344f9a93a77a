/*
 * live - a session in a process of its own, which records into a log: what a display shows, it reads from
 * that log. So a display that hangs, crashes or is killed never holds up the program that is watched, and
 * what it shows is what `watchctl report` will show later.
 *
 * The session's process ends, and leaves the program alone, when it is asked to, when the program ends, and
 * when the process that started it has gone, however that came.
 */
#ifndef WATCHCTL_MONITOR_LIVE_LIVE_H
#define WATCHCTL_MONITOR_LIVE_LIVE_H

#include "watchctl/monitor/monitor.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/redact.h"

#define LIVE_REDACT_MAX 64u

struct live_options {
	/* Of it, say and say_ctx are not used; stop ends the wait in live_start(). No watch at all is
	 * allowed. */
	struct monitor_options monitor;
	const char *log; /* NULL: one in a new directory of its own, which goes with live_close() */
	struct tracelog_bounds bounds; /* all 0: none, but a ring of 256 MB for a log of its own */
	struct redact_rules redact;    /* of what is recorded; at most LIVE_REDACT_MAX names */
	/*
	 * File descriptors that a launched program gets as 0, 1 and 2; -1: /dev/null. It has no controlling
	 * terminal, even where these are one: no key stops or ends it, and reading there does not stop it.
	 */
	int program_fd[3];
	uint64_t count, time_ns; /* as of struct session_limits */
};

struct live;

/*
 * Starts the session: executes this program again, whose main() must begin as live_session.h says. Returns
 * when all is armed, or with the error of monitor_open(). @o and what it points to
 * are not needed afterwards. The log can be opened, and followed (tracelog_follow), from then on: what was
 * recorded can be read after 100 ms at the latest.
 */
struct wc_error *live_start(const struct live_options *o, struct live **ret);

const char *live_log(const struct live *l);
pid_t live_program(const struct live *l); /* the process that is watched */

/* Becomes readable when live_state() may have changed: for poll(). */
int live_fd(const struct live *l);

enum live_state {
	LIVE_RUNS,
	LIVE_ENDED, /* *@ret says how, see live_end() */
};

enum live_state live_state(struct live *l);

/*
 * After LIVE_ENDED: how it came, and the error if it failed (WC_EFAIL: its process was killed; the caller's
 * to free), or NULL.
 */
struct wc_error *live_end(struct live *l, enum session_end *ret);

/* After LIVE_ENDED, as of the monitor: a watch that waited for a library to the end; no libstackwalk came. */
const char *live_never_armed(const struct live *l);
bool live_never_collected(const struct live *l);

/*
 * As monitor_add() and so on; they wait for the answer, 200 ms at most as a rule, but for names that take
 * long to find. What they did can be read in the log when they return. WC_ETARGET: it has ended.
 */
struct wc_error *live_add(struct live *l, const struct watch_request *w, uint32_t *ret);
struct wc_error *live_remove(struct live *l, uint32_t id);
struct wc_error *live_enable(struct live *l, uint32_t id, bool on);

/* Asks it to end, and waits: the log is whole then. Accepts that it has ended. */
struct wc_error *live_stop(struct live *l);

/* Stops it if need be, removes a log of its own, frees. Accepts NULL. */
void live_close(struct live *l);

#endif
