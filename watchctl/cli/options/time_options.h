/* time_options - --from, --until, --last and --utc of the commands that read a log: which part of it. */
#ifndef WATCHCTL_CLI_OPTIONS_TIME_OPTIONS_H
#define WATCHCTL_CLI_OPTIONS_TIME_OPTIONS_H

#include "watchctl/cli/options/options.h"
#include "watchctl/view/export/export_select.h"

#define TIME_OPTIONS                                                                                    \
	{ "--from",	    NULL,                                                                       \
	  "TIME",	    "only from then on: +1.5s, 12:34:56.789, a date and time, or time_ns",      \
	  COMPLETE_NOTHING, NULL },                                                                     \
		{ "--until", NULL, "TIME", "only before then", COMPLETE_NOTHING, NULL },                \
	{                                                                                               \
		"--last", NULL, "TIME", "only the last 30s, 10m ... of the log", COMPLETE_NOTHING, NULL \
	}

struct time_ask {
	const char *from, *until; /* as they were written; NULL: not asked for */
	uint64_t last_ns;	  /* 0: not asked for */
};

/* Takes @m if it is one of them: *@taken. */
struct wc_error *time_ask_take(struct time_ask *ask, const struct option_match *m, bool *taken);

bool time_is_asked(const struct time_ask *ask);

/* What was asked for, of the log @log; @utc: times of day are in UTC. Reads the log for --last. */
struct wc_error *time_ask_choose(const struct time_ask *ask, const char *log, bool utc,
				 struct export_choice *ret);

#endif
