/*
 * report - accesses, captures and calls as they come, then the tables by site, by tag and by function, or the
 * stacks by count, and the balance: what `watchctl report` prints of a log, and what a live session prints of
 * itself. Sits between annotate and a printer.
 */
#ifndef WATCHCTL_VIEW_PRINT_REPORT_H
#define WATCHCTL_VIEW_PRINT_REPORT_H

#include "watchctl/view/event/annotate.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/table/stack_tree.h"
#include "watchctl/view/table/tag_totals.h"

struct report_options {
	bool no_events; /* leave out accesses and captures; losses and notes are reported all the same */
	bool no_tables;
	bool is_part; /* events are chosen by thread, time or function: totals of probes are not of them */
	bool stacks;  /* print the stacks by count; needs ANNOTATE_STACK */
	/* With stacks: who counts those of calls, in trees of its own; NULL: nobody. */
	const struct view *call_counter;
	struct stack_trees *call_stacks;
	enum stack_merge merge;
	bool inverted;
	uint64_t skip; /* leave out that many accesses, captures and calls at the start; the tables count them
			*/

	/* Of step recordings. Tell calls and returns, which needs ANNOTATE_CALLS; else they are only counted.
	 */
	bool calls;
	bool instructions; /* report each instruction, too, with calls */
};

struct report;

/* Events come in by report_view(). @a, @p and the texts in @options must outlive it. NULL: no memory. */
struct report *report_new(struct annotate *a, struct printer *p, const struct report_options *options);

/* After the last event: prints what sums up, with the summaries that annotate makes up. */
void report_finish(struct report *r);

/* Accesses, captures and calls that were, or with skip could have been, printed. */
uint64_t report_events(const struct report *r);

/* Of what was chosen, how many were lost by its summaries: after report_finish(). */
uint64_t report_lost(const struct report *r);

/* Where events come in. Lives as long as @r. */
struct view report_view(struct report *r);

/* Accepts NULL. Before the annotate is freed. */
void report_free(struct report *r);
void report_freep(struct report **r);

#endif
