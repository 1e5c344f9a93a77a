/* step_totals - what sums a step recording up: its occurrences, its functions, its threads, its signals. */
#ifndef WATCHCTL_VIEW_TABLE_STEP_TOTALS_H
#define WATCHCTL_VIEW_TABLE_STEP_TOTALS_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"

struct step_function_row {
	const struct view_function *function;
	uint64_t calls;
	uint64_t ended[RETURN_UNKNOWN + 1]; /* by enum return_how */
	uint64_t errors;		    /* returned, and said that it failed */
	uint64_t timed;			    /* that returned, and whose beginning is known */
	uint64_t total_ns, max_ns;	    /* of those; what the recorder took is in it */
	uint64_t self_ns;		    /* of total_ns, what the calls that they made did not take */
	uint64_t *spread;		    /* of those: how many lasted how long, see duration_spread.h */
};

/* So long lasted @permille of the calls of @r at most, within the width of a step; 0: none is timed. */
uint64_t step_row_quantile(const struct step_function_row *r, unsigned int permille);

struct step_occurrence {
	uint32_t number;
	int32_t pid, tid; /* in which it began */
	char comm[COMM_LEN];
	struct view_time begin, end;
	uint64_t calls;
	enum range_what what; /* RANGE_BEGIN: the log has no end of it */
};

struct step_thread_row {
	int32_t pid, tid;
	char comm[COMM_LEN];
	uint64_t calls;
};

/* Zero-initialised is empty. */
struct step_totals {
	bool reported; /* there is a recording, or there are events of one */
	char *stepper, *planner, *range, *filters;
	bool instructions;
	uint64_t calls, ended, steps; /* ended: not those that were open when the recording ended */
	uint64_t signals[65];	      /* by number; 0: of other numbers */
	struct step_function_row **function;
	size_t nfunctions, functions_cap;
	struct map64 by_function; /* view_function -> row */
	struct step_thread_row **thread;
	size_t nthreads, threads_cap;
	struct map64 by_thread;
	struct step_occurrence *occurrence;
	size_t noccurrences, occurrences_cap;
	bool incomplete; /* memory ran out: counts are too low */
};

/* The view that counts in @t. */
struct view step_totals_view(struct step_totals *t);

/* Functions with most calls first, threads in the order of their first call. */
void step_totals_sort(struct step_totals *t);

void step_totals_deinit(struct step_totals *t);

#endif
