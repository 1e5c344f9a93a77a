/* time_options - --from, --until and --last of the commands that read a log: which part of it. */
#ifndef WATCHCTL_CLI_OPTIONS_TIME_OPTIONS_H
#define WATCHCTL_CLI_OPTIONS_TIME_OPTIONS_H

#include "watchctl/cli/options/options.h"
#include "watchctl/view/event/event_choice.h"

/* For a struct time_ask in the command's request. */
extern const struct option time_options[];

struct time_ask {
	const char *from, *until; /* as they were written; NULL: not asked for */
	uint64_t last_ns;	  /* 0: not asked for */
};

bool time_is_asked(const struct time_ask *ask);

/* What was asked for, of the log @log; @utc: times of day are in UTC. Reads the log for --last. */
struct wc_error *time_ask_choose(const struct time_ask *ask, const char *log, bool utc,
				 struct event_choice *ret);

#endif
