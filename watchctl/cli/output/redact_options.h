/*
 * redact_options - --no-values and --redact: the same for every command that records, shows or hands on
 * values. A command's table holds REDACT_OPTIONS; each match is offered to redact_ask_take().
 */
#ifndef WATCHCTL_CLI_OUTPUT_REDACT_OPTIONS_H
#define WATCHCTL_CLI_OUTPUT_REDACT_OPTIONS_H

#include "watchctl/cli/options/options.h"
#include "watchctl/monitor/monitor.h"
#include "watchctl/view/event/replay.h"

#define REDACT_NAMES 64u

struct redact_ask {
	bool all;
	const char *name[REDACT_NAMES];
	unsigned int n;
};

/* The formatter knows no tables in macros. */
/* clang-format off */

#define REDACT_OPTIONS \
	{ "--no-values", NULL, NULL, "withhold all values: nothing that memory or registers hold", 0, NULL }, \
	{ "--redact", NULL, "NAME", \
	  "withhold the values of the watch, tag or function NAME ('*key*'), and all registers; may be repeated", \
	  COMPLETE_NOTHING, NULL }

/* clang-format on */

/* *@taken: @m is one of the two. */
struct wc_error *redact_ask_take(struct redact_ask *q, const struct option_match *m, bool *taken);

/* Says on standard error that nothing in a log is called @name, so nothing was withheld. Accepts NULL. */
void redact_ask_warn(const char *name);

/* They point into @q. */
struct redact_rules redact_ask_rules(const struct redact_ask *q);

/*
 * Before anything is armed: a name that means none of the watches is a mistake that would let out what was to
 * be withheld. WC_EUSAGE. With captures, it may be a tag.
 */
struct wc_error *redact_ask_check(const struct redact_ask *q, const struct monitor_options *o);

#endif
