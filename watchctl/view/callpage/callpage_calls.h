/*
 * callpage_calls - the calls of a log in the order in which they began, and as columns of numbers (page_bytes.h) for the
 * script. One row a call, in each of the columns:
 *
 *	time		nanoseconds since the call before began; the first: since the beginning of the page
 *	duration	nanoseconds until it ended, or until the end of the log
 *	function, thread	numbers in the tables
 *	depth		of the open calls of its thread, how many are around it
 *	state		how * 16 + the flags CALL_; how: enum return_how, 0: the log does not have its end
 *	number		that of the log, minus that of the call before, minus 1
 *
 * and in a block of its own, one after the other:
 *
 *	values		how many parameters follow, these as numbers of texts, and that of the result
 */
#ifndef WATCHCTL_VIEW_CALLPAGE_CALLPAGE_CALLS_H
#define WATCHCTL_VIEW_CALLPAGE_CALLPAGE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/view/page/page_bytes.h"

struct callpage_call {
	uint64_t number;
	uint64_t begin_ns, end_ns; /* since the beginning of the page; open: the end is 0 */
	uint32_t function, thread, depth;
	uint32_t args, result; /* where its parameters begin in value; the text of its result */
	uint8_t nargs, flags, how;
};

/* The open calls of a thread, outermost first: their numbers in v, or CALLPAGE_NOT_KEPT. */
struct callpage_open {
	uint32_t *v;
	size_t n, cap;
};

#define CALLPAGE_NOT_KEPT UINT32_MAX

/* Zero-initialised is empty, without room. */
struct callpage_calls {
	struct callpage_call *v;
	size_t n, cap, max;
	uint32_t *value; /* texts of parameters */
	size_t nvalues, value_cap;
	struct callpage_open *open; /* by thread */
	size_t nthreads, open_cap;
	uint64_t left_out;
};

/*
 * @call begins with the parameters @args, of which it has nargs; depth calls of its thread are open around it. Whether it is
 * kept or not, it is open. False: no memory.
 */
bool callpage_calls_begin(struct callpage_calls *c, const struct callpage_call *call, const uint32_t *args);

/* The call with that number ends, at that depth of its thread. NULL: it was not kept. */
struct callpage_call *callpage_calls_end(struct callpage_calls *c, uint32_t thread, uint32_t depth,
					 uint64_t number);

/* All of them; those that are open end at @end_ns. False: no memory. */
#define CALLPAGE_COLUMNS 7
extern const char *const callpage_column_name[CALLPAGE_COLUMNS];
bool callpage_calls_encode(const struct callpage_calls *c, uint64_t end_ns, struct page_bytes *columns,
			   size_t start[CALLPAGE_COLUMNS], struct page_bytes *values);

void callpage_calls_deinit(struct callpage_calls *c);

#endif
