#include "watchctl/cli/options/time_options.h"

#include "watchctl/base/error.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/event/time_bound.h"

const struct option time_options[] = {
	{ "--from", NULL, "TIME", "only from then on: +1.5s, 12:34:56.789, a date and time, or time_ns",
	  COMPLETE_NOTHING, NULL, OPTION_TEXT(struct time_ask, from) },
	{ "--until", NULL, "TIME", "only before then", COMPLETE_NOTHING, NULL,
	  OPTION_TEXT(struct time_ask, until) },
	{ "--last", NULL, "TIME", "only the last 30s, 10m ... of the log", COMPLETE_NOTHING, NULL,
	  OPTION_TIME(struct time_ask, last_ns) },
	{ 0 },
};

bool time_is_asked(const struct time_ask *ask)
{
	return ask->from || ask->until || ask->last_ns;
}

struct wc_error *time_ask_choose(const struct time_ask *ask, const char *log, bool utc,
				 struct event_choice *ret)
{
	struct wc_error *err = NULL;
	uint64_t last;

	if (ask->last_ns && (ask->from || ask->until))
		return wc_error_new(WC_EUSAGE,
				    "--last counts from the end of the log; it excludes --from and --until");
	if (ask->from)
		err = time_bound_parse("--from", ask->from, utc, &ret->from);
	if (!err && ask->until)
		err = time_bound_parse("--until", ask->until, utc, &ret->until);
	if (err || !ask->last_ns)
		return err;
	err = replay_last_time(log, &last);
	if (!err)
		ret->from = (struct time_bound){ .kind = TIME_MONOTONIC,
						 .ns = last > ask->last_ns ? last - ask->last_ns : 0,
						 .text = "--last" };
	return err;
}
