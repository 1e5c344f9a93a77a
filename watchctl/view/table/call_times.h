/*
 * call_times - how often functions are called, and how long they take, of calls that are traced now: a row for each function, in a space
 * that grows with functions and threads, and not with calls.
 *
 * Timed are calls that have returned: of one that was left otherwise, when that was is not known exactly. Of a function that calls itself,
 * by others too, the outermost call alone counts in the total; self time is the call's time without that of the traced calls that it made.
 */
#ifndef WATCHCTL_VIEW_TABLE_CALL_TIMES_H
#define WATCHCTL_VIEW_TABLE_CALL_TIMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/map64.h"
#include "watchctl/trace/event.h"
#include "watchctl/view/table/site_stats_rate.h"

struct call_times_row {
	uint32_t id;  /* function_event.id */
	char *name;   /* "path+0x1234" where it has none; owned */
	char *module; /* path; owned; NULL: none */
	uint64_t calls;
	uint64_t open;	/* of them, those that have not ended */
	uint64_t timed; /* ... that have returned */
	uint64_t total_ns, self_ns;
	uint64_t
		sum_ns; /* of all that are timed, those within others of the same function, too: for the mean */
	uint64_t longest_ns; /* of one call */
	uint64_t *spread;    /* see duration_spread.h; NULL: none is timed */
	struct site_rate rate;
	bool is_off;		       /* it was called so often that it was switched off */
	uint64_t not_recorded;	       /* its calls from then on; 0: not known yet */
	uint64_t in_second, second_ns; /* as the tracer counts them, to find out when it switches off */
};

/* Zero-initialised is empty. */
struct call_times {
	uint64_t
		max_rate; /* the tracer's: calls of a function in a second, before it is switched off; 0: none is */
	struct call_times_row **function; /* in the order of their first calls; owned */
	size_t nfunctions, functions_cap;
	uint64_t calls;
	int32_t pid;
	char comm[COMM_LEN];
	/* Within: */
	struct map64 by_id;  /* function_event.id -> row */
	struct map64 by_tid; /* threads that have open calls, or had them not long ago */
	struct call_times_thread *last;
	size_t nswept; /* threads that were left when those without open calls were removed last */
};

/* WC_ENOMEM: what it counts from now on is too low. */
struct wc_error *call_times_put(struct call_times *t, const struct trace_event *e);

/* Whether it is, or must be taken to be, switched off. @noff: how many are, by the tracer. */
bool call_times_is_off(const struct call_times *t, const struct call_times_row *r, size_t noff);

uint64_t call_times_mean(const struct call_times_row *r);			     /* 0: none is timed */
uint64_t call_times_quantile(const struct call_times_row *r, unsigned int permille); /* likewise */

/* "calls rate total self mean p99 longest name": the words of --sort, in the order of the columns. */
enum call_times_order {
	CALL_TIMES_CALLS,
	CALL_TIMES_RATE,
	CALL_TIMES_TOTAL,
	CALL_TIMES_SELF,
	CALL_TIMES_MEAN,
	CALL_TIMES_P99,
	CALL_TIMES_LONGEST,
	CALL_TIMES_NAME,
	CALL_TIMES_ORDERS
};
#define CALL_TIMES_WORDS "calls rate total self mean p99 longest name"

/* Most first, names from a on; equal ones by name. Rates are those from @since_ns to @now_ns. */
void call_times_sort(struct call_times *t, enum call_times_order by, uint64_t since_ns, uint64_t now_ns);

void call_times_deinit(struct call_times *t);

#endif
