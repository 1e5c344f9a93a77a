/*
 * site_stats_feed - reads a log, that is complete or is being recorded, into the model that is shown. Reading
 * never depends on drawing: it is asked to go on for a while, again and again.
 */
#ifndef WATCHCTL_VIEW_TABLE_SITE_STATS_FEED_H
#define WATCHCTL_VIEW_TABLE_SITE_STATS_FEED_H

#include "watchctl/base/error.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/view/table/site_stats.h"

struct site_feed;

/* How the log stands. */
enum feed_state {
	FEED_BEHIND,	/* there is more to read at once */
	FEED_CAUGHT_UP, /* all that is there was read; more may come */
	FEED_ENDED,	/* nothing more will come */
};

/* Opens the log @path. WC_ELOG as of tracelog_reader_open(). */
struct wc_error *site_feed_open(const char *path, enum insn_syntax syntax, struct site_feed **ret);

/* Reads for about @ns, or until there is nothing more for now. Errors are final. */
struct wc_error *site_feed_read(struct site_feed *f, uint64_t ns);

/* There will be no more reading: with @rest, reads what is left; then, the summaries of watches that have
 * none. */
struct wc_error *site_feed_finish(struct site_feed *f, bool rest);

struct site_stats *site_feed_stats(struct site_feed *f);
enum feed_state site_feed_state(const struct site_feed *f);

/* Bytes of the log that were not read, and why (a phrase); 0 and NULL: none. */
uint64_t site_feed_ignored(const struct site_feed *f, const char **why); /* at its end */
uint64_t site_feed_missed(const struct site_feed *f, const char **why);	 /* before it */
void site_feed_damage(const struct site_feed *f, struct log_damage *ret);

/* Accepts NULL. */
void site_feed_close(struct site_feed *f);
void site_feed_closep(struct site_feed **f);

#endif
