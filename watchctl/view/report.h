/*
 * report - accesses as they come, then the table by site and the balance: what `watchctl report`
 * prints of a log, and what a live session prints of itself. Sits between annotate and a printer.
 */
#ifndef WATCHCTL_VIEW_REPORT_H
#define WATCHCTL_VIEW_REPORT_H

#include "watchctl/view/annotate.h"
#include "watchctl/view/printer.h"

struct report_options {
	bool no_events;	   /* leave out the accesses; losses and notes are told all the same */
	bool no_sites;	   /* leave out the table */
	const char *watch; /* only this watch: its name or full name; NULL: all */
	uint64_t skip;	   /* leave out that many accesses at the start; the table counts them */
};

struct report;

/* Adds itself to @a's views. @a, @p and options->watch must outlive it. NULL: no memory. */
struct report *report_new(struct annotate *a, struct printer *p, const struct report_options *options);

/* After the last event: prints the table and the summaries, those that annotate makes up included. */
void report_finish(struct report *r);

/* Accesses that were, or with skip could have been, printed. */
uint64_t report_accesses(const struct report *r);

/*
 * False: options->watch names none of the watches seen; *@names then lists those there are
 * ("flag, count"; the report's, NULL: there are none).
 */
bool report_watch_is_known(struct report *r, const char **names);

/* Accepts NULL. Before the annotate is freed. */
void report_free(struct report *r);
void report_freep(struct report **r);

#endif
