/*
 * redact_options - --no-values and --redact: the same for every command that records, shows or hands on
 * values. A command's table holds these, for the struct redact_ask in its request.
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

extern const struct option redact_options[];

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
