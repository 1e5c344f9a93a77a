#include "watchctl/cli/options/time_options.h"

#include "watchctl/base/error.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/export/export_time.h"

struct wc_error *time_ask_take(struct time_ask *ask, const struct option_match *m, bool *taken)
{
	*taken = true;
	if (option_is(m, "--from"))
		ask->from = m->value;
	else if (option_is(m, "--until"))
		ask->until = m->value;
	else if (option_is(m, "--last"))
		return option_time(m, &ask->last_ns);
	else
		*taken = false;
	return NULL;
}

bool time_is_asked(const struct time_ask *ask)
{
	return ask->from || ask->until || ask->last_ns;
}

struct wc_error *time_ask_choose(const struct time_ask *ask, const char *log, bool utc,
				 struct export_choice *ret)
{
	struct wc_error *err = NULL;
	uint64_t last;

	if (ask->last_ns && (ask->from || ask->until))
		return wc_error_new(WC_EUSAGE,
				    "--last counts from the end of the log; it excludes --from and --until");
	if (ask->from)
		err = export_time_parse("--from", ask->from, utc, &ret->from);
	if (!err && ask->until)
		err = export_time_parse("--until", ask->until, utc, &ret->until);
	if (err || !ask->last_ns)
		return err;
	err = replay_last_time(log, &last);
	if (!err)
		ret->from = (struct export_time){ .kind = TIME_MONOTONIC,
						  .ns = last > ask->last_ns ? last - ask->last_ns : 0,
						  .text = "--last" };
	return err;
}
