/*
 * watch_request - the options that say what is watched, in which process and how: the same for every command
 * that records accesses. A command's table of options holds the macros below, in this order; each match is
 * offered to watch_ask_take(), and watch_ask_check() looks at the whole.
 */
#ifndef WATCHCTL_CLI_REQUEST_WATCH_REQUEST_H
#define WATCHCTL_CLI_REQUEST_WATCH_REQUEST_H

#include "watchctl/cli/options/options.h"
#include "watchctl/cli/output/redact_options.h"
#include "watchctl/monitor/monitor.h"

/* What was asked for; points into argv. */
struct watch_ask {
	struct monitor_options monitor; /* without stop and say */
	uint64_t count, time_ns;	/* as of struct monitor_limits */
	struct redact_ask redact;
};

/* The formatter knows no tables in macros. */
/* clang-format off */

/* -p PID */
#define WATCH_TARGET_OPTION \
	{ "-p", "--pid", "PID", "the process to watch", COMPLETE_PID, NULL }

/* -v EXPR */
#define WATCH_EXPR_OPTION \
	{ "-v", "--variable", "EXPR", \
	  "what to watch; up to four, each with the options behind it, down to --rate", COMPLETE_VARIABLE, NULL }

/* -s ... --rate: of one watch, and behind its -v. */
#define WATCH_FILTER_OPTIONS \
	{ "-s", "--size", "SIZE", "bytes to watch, 1 to 32 (default: the type's size)", COMPLETE_WORDS, \
	  "1 2 4 8 16 32" }, \
	{ "-w", "--write", NULL, "writes (the default)", 0, NULL }, \
	{ "-r", "--read", NULL, "reads", 0, NULL }, \
	{ "-rw", "--read-write", NULL, "reads and writes", 0, NULL }, \
	{ "-x", "--execute", NULL, "executions: EXPR is a function, function+0x12, file.c:123 or 0x...", 0, \
	  NULL }, \
	{ "-i", "--register", "0..3", \
	  "use this debug register, set by ptrace (stops every thread for a moment)", COMPLETE_WORDS, \
	  "0 1 2 3" }, \
	{ "--follow", NULL, NULL, \
	  "move the watch when a pointer on its path changes (takes a register for each pointer)", 0, NULL }, \
	{ "--if", NULL, "COND", \
	  "record only hits for which COND holds: new==0, new>old+100, new in 3..7, thread==\"gc\", size==8", \
	  COMPLETE_NOTHING, NULL }, \
	{ "--changes", NULL, NULL, "record only hits that change the value", 0, NULL }, \
	{ "--caller", NULL, "FUNC", \
	  "record only hits with FUNC in their stack; may be repeated (any of them)", COMPLETE_FUNCTION, \
	  NULL }, \
	{ "--not-caller", NULL, "FUNC", "record no hits with FUNC in their stack; may be repeated", \
	  COMPLETE_FUNCTION, NULL }, \
	{ "--thread", NULL, "NAME|TID", "record only hits of the threads of that name, or of that thread", \
	  COMPLETE_NOTHING, NULL }, \
	{ "--sample", NULL, "N", "of the hits that pass, record every Nth", COMPLETE_NOTHING, NULL }, \
	{ "--rate", NULL, "N/s", "and at most N a second, evenly (also N/ms, N/min)", COMPLETE_NOTHING, \
	  NULL }

/* --tags -n -t */
#define WATCH_LIMIT_OPTIONS \
	{ "--tags", NULL, NULL, \
	  "collect the tagged stacks that the program captures with libstackwalk, see stackwalk(7)", 0, \
	  NULL }, \
	{ "-n", "--count", "COUNT", "end after COUNT accesses and captures", COMPLETE_NOTHING, NULL }, \
	{ "-t", "--time", "SECONDS", "end after SECONDS (fractions allowed)", COMPLETE_NOTHING, NULL }

/* --engine --fork --exec --frames --buffer --private-buffer --pending --no-values --redact */
#define WATCH_ENGINE_OPTIONS \
	{ "--engine", NULL, "ENGINE", "auto (default), handler, ring or ptrace: see ENGINES in the manual", \
	  COMPLETE_WORDS, "auto handler ring ptrace" }, \
	{ "--fork", NULL, "WHAT", "what to do about forked children: ignore (default) or follow", \
	  COMPLETE_WORDS, "ignore follow" }, \
	{ "--exec", NULL, "WHAT", \
	  "when the process executes another program: ignore (default), which ends the watch, or follow", \
	  COMPLETE_WORDS, "ignore follow" }, \
	{ "--frames", NULL, "N", \
	  "most frames of a stack, 1 to 64 (default 32); of a capture, 1 to 128 (default 64)", \
	  COMPLETE_NOTHING, NULL }, \
	{ "--buffer", NULL, "SIZE", \
	  "size of the event buffer in the target, 64K to 1G (default 8M); with --tags that of each thread, " \
	  "at most 256M", \
	  COMPLETE_NOTHING, NULL }, \
	{ "--private-buffer", NULL, NULL, "do not share the event buffer; read it through the kernel", 0, \
	  NULL }, \
	{ "--pending", NULL, NULL, "wait for a library that is not loaded yet", 0, NULL }, \
	REDACT_OPTIONS

/* clang-format on */

/* With the defaults. */
void watch_ask_init(struct watch_ask *q);

/* *@taken: @m is one of those above, whose name is not in the command's own part of the table. */
struct wc_error *watch_ask_take(struct watch_ask *q, const struct option_match *m, bool *taken);

/* For the REPL, whose watches are not preceded by -v: begins with the options of another one. */
struct wc_error *watch_ask_add(struct watch_ask *q, const char *expr);

/* What is wrong with it as a whole: no process, nothing to watch, options that do not go together. */
struct wc_error *watch_ask_check(const struct watch_ask *q);

/* Of what was asked of single watches alone: what is wrong with it. */
struct wc_error *watch_ask_check_watches(const struct watch_ask *q);

/* How a session ended, as an error, or NULL: in words for its user, from what the monitor says. */
struct wc_error *watch_verdict(enum monitor_end end, const char *unarmed, bool uncollected);

#endif
