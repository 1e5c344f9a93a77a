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

/*
 * What is asked for by name: of neither kind, all of both. When one is chosen, the other kind is left out
 * unless it is chosen as well.
 */
struct report_choice {
	const char *watch;	/* its name or full name; NULL: none */
	const char *const *tag; /* names, or numbers as people write them */
	size_t ntags;
};

struct report_options {
	bool is_fed;	/* the caller feeds report_view() with what is wanted; else it is one of @a's views */
	bool no_events; /* leave out accesses and captures; losses and notes are reported all the same */
	bool no_tables;
	bool is_part; /* events are chosen by thread, time or function: totals of probes are not of them */
	bool stacks;  /* print the stacks by count; needs ANNOTATE_STACK */
	/* With stacks: who counts those of calls, in trees of its own; NULL: nobody. */
	const struct view *call_counter;
	struct stack_trees *call_stacks;
	enum stack_merge merge;
	bool inverted;
	struct report_choice choice;
	/* Tell with each access the last capture under this tag by the same thread; NULL: do not. */
	const char *before;
	uint64_t skip; /* leave out that many accesses, captures and calls at the start; the tables count them
			*/

	/* Of step recordings. Tell calls and returns, which needs ANNOTATE_CALLS; else they are only counted.
	 */
	bool calls;
	bool instructions; /* report each instruction, too, with calls */
	const char
		*function; /* only calls of functions of that name (fnmatch), with all inside of them; NULL */
	const char *thread; /* only calls of threads of that number or name; NULL */
	uint32_t depth;	    /* only so many levels of calls; 0: all */
};

struct report;

/* Adds itself to @a's views, but with is_fed. @a, @p and the texts in @options must outlive it. NULL: no memory. */
struct report *report_new(struct annotate *a, struct printer *p, const struct report_options *options);

/* After the last event: prints what sums up, with the summaries that annotate makes up. */
void report_finish(struct report *r);

/* Accesses, captures and calls that were, or with skip could have been, printed. */
uint64_t report_events(const struct report *r);

/* Of what was chosen, how many were lost by its summaries: after report_finish(). */
uint64_t report_lost(const struct report *r);

/* Where events come in. Lives as long as @r. */
struct view report_view(struct report *r);

/* All tags seen, sorted by report_finish(). Lives as long as @r. */
const struct tag_totals *report_tags(const struct report *r);

/* True if some capture was made under the tag that users call @tag. */
bool report_tag_is_known(const struct report *r, const char *tag);

/*
 * False: options->choice.watch names none of the watches seen; *@names then lists those there are
 * ("flag, count"; the report's, NULL: there are none).
 */
bool report_watch_is_known(struct report *r, const char **names);

/* Accepts NULL. Before the annotate is freed. */
void report_free(struct report *r);
void report_freep(struct report **r);

#endif
