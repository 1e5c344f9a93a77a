/*
 * watch_request - the options that say what is watched, in which process and how: the same for every command
 * that records accesses. A command's table of options holds the tables below, for the struct watch_ask in its
 * request, and watch_ask_check() looks at the whole.
 */
#ifndef WATCHCTL_CLI_REQUEST_WATCH_REQUEST_H
#define WATCHCTL_CLI_REQUEST_WATCH_REQUEST_H

#include "watchctl/cli/options/options.h"
#include "watchctl/cli/output/ready_options.h"
#include "watchctl/cli/output/redact_options.h"
#include "watchctl/monitor/monitor.h"

/* What was asked for; points into argv. */
struct watch_ask {
	struct monitor_options monitor; /* without stop and say */
	uint64_t count, time_ns;	/* as of struct session_limits */
	struct redact_ask redact;
	struct ready_ask ready;
};

/* -p and -v; -s ... --rate, of one watch and behind its -v; --tags, -n and -t */
extern const struct option watch_options[];

/* -s ... --rate alone, of the watch that was added last. */
extern const struct option watch_filter_options[];

/* --engine --fork --exec --frames --buffer --private-buffer --pending --ready-fd --no-values --redact */
extern const struct option watch_engine_options[];

/* With the defaults. */
void watch_ask_init(struct watch_ask *q);

/* For the REPL, whose watches are not preceded by -v: begins with the options of another one. */
struct wc_error *watch_ask_add(struct watch_ask *q, const char *expr);

/* What is wrong with it as a whole: no process, nothing to watch, options that do not go together. */
struct wc_error *watch_ask_check(const struct watch_ask *q);

/* Of what was asked of single watches alone: what is wrong with it. */
struct wc_error *watch_ask_check_watches(const struct watch_ask *q);

/* How a session ended, as an error, or NULL: in words for its user, from what the monitor says. */
struct wc_error *watch_verdict(enum session_end end, const char *unarmed, bool uncollected);

#endif
