#include "watchctl/view/table/site_stats_feed.h"

#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/trace/log/tracelog_symbols.h"

#define EVENTS_PER_LOOK 256u /* at the clock */

/*
 * What was recorded is in the log some time later (see live.h and recorder.h): up to so long ago, all of it.
 * Rates are those of that moment.
 */
#define LOG_DELAY_NS 500000000u

/* A log of another boot, or a clock that does not fit: our time says nothing about the log's. */
#define CLOCK_TRUST_NS 3600000000000u

struct site_feed {
	struct tracelog_reader *reader;
	struct annotate *annotate;
	struct event_sink sink;
	struct site_stats stats;
	enum feed_state state;
	bool finished;
	const char *why_names; /* some that were added to the log cannot be read; NULL */
};

struct site_stats *site_feed_stats(struct site_feed *f)
{
	return &f->stats;
}

enum feed_state site_feed_state(const struct site_feed *f)
{
	return f->state;
}

uint64_t site_feed_ignored(const struct site_feed *f, const char **why)
{
	return tracelog_ignored(f->reader, why);
}

uint64_t site_feed_missed(const struct site_feed *f, const char **why)
{
	return tracelog_missed(f->reader, why);
}

void site_feed_damage(const struct site_feed *f, struct log_damage *ret)
{
	tracelog_damage(f->reader, ret);
	ret->why_names = f->why_names;
}

/* Nothing happens in the log, but time goes on, as long as it is recorded by this machine's clock. */
static void let_time_pass(struct site_feed *f)
{
	uint64_t now = monotonic_ns() - LOG_DELAY_NS, last = f->stats.now_ns;

	if (last && now > last && now - last < CLOCK_TRUST_NS)
		site_stats_at(&f->stats, now);
}

static struct wc_error *read_one(struct site_feed *f, enum log_outcome *outcome)
{
	struct trace_event e;
	struct wc_error *err = tracelog_next(f->reader, &e, outcome);

	if (err || *outcome != LOG_EVENT)
		return err;
	return f->sink.put(f->sink.ctx, &e);
}

struct wc_error *site_feed_read(struct site_feed *f, uint64_t ns)
{
	uint64_t until = monotonic_ns() + ns;
	enum log_outcome outcome = LOG_EVENT;
	unsigned int n;

	if (f->state == FEED_ENDED)
		return NULL;
	while (outcome == LOG_EVENT) {
		for (n = 0; n < EVENTS_PER_LOOK && outcome == LOG_EVENT; n++) {
			struct wc_error *err = read_one(f, &outcome);

			if (err)
				return err;
		}
		if (monotonic_ns() >= until)
			break;
	}
	f->state = outcome == LOG_EVENT ? FEED_BEHIND : outcome == LOG_WAIT ? FEED_CAUGHT_UP : FEED_ENDED;
	if (f->state == FEED_CAUGHT_UP)
		let_time_pass(f);
	return f->state == FEED_ENDED ? site_feed_finish(f, false) : NULL;
}

struct wc_error *site_feed_finish(struct site_feed *f, bool rest)
{
	enum log_outcome outcome = LOG_EVENT;

	if (f->finished)
		return NULL;
	while (rest && f->state != FEED_ENDED && outcome == LOG_EVENT) {
		struct wc_error *err = read_one(f, &outcome);

		if (err)
			return err;
	}
	f->finished = true;
	annotate_finish(f->annotate);
	return NULL;
}

/* Names that were added later come first: whoever reads the events then knows them. */
static struct wc_error *read_names(struct site_feed *f, const char *path)
{
	return tracelog_symbols_read(path, f->sink, &f->why_names);
}

struct wc_error *site_feed_open(const char *path, enum insn_syntax syntax, struct site_feed **ret)
{
	scoped(site_feed_closep) struct site_feed *f = calloc(1, sizeof(*f));
	struct wc_error *err;

	if (!f)
		return &wc_enomem;
	err = tracelog_reader_open(path, &f->reader);
	if (err)
		return err;
	tracelog_follow(f->reader);
	f->annotate = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT | ANNOTATE_NO_VALUES);
	if (!f->annotate)
		return &wc_enomem;
	annotate_set_syntax(f->annotate, syntax);
	site_stats_init(&f->stats, f->annotate);
	annotate_add_view(f->annotate, site_stats_view(&f->stats));
	f->sink = annotate_sink(f->annotate);
	err = read_names(f, path);
	if (err)
		return err;
	*ret = take_ptr(f);
	return NULL;
}

void site_feed_close(struct site_feed *f)
{
	if (!f)
		return;
	site_stats_deinit(&f->stats);
	annotate_free(f->annotate);
	tracelog_reader_close(f->reader);
	free(f);
}

void site_feed_closep(struct site_feed **f)
{
	site_feed_close(*f);
}
