/*
 * call_range - which of the calls that are traced a recording of `watchctl step` has: from where its range begins to where it ends (step/model/range.h),
 * by thread, depth and number. Pure state.
 */
#ifndef WATCHCTL_MONITOR_CALLS_CALL_RANGE_H
#define WATCHCTL_MONITOR_CALLS_CALL_RANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/step/model/range.h"
#include "watchctl/step/model/track.h"

struct call_range {
	struct range range;
	bool one;	 /* only the thread that began it: the first one of the process, if none did */
	uint32_t depth;	 /* deeper calls of a thread are not recorded; 0: no limit */
	uint64_t events; /* calls after which an occurrence is cut short; 0: no limit */
	/* Of the present occurrence: */
	uint64_t entries;
	pid_t fresh; /* the thread that has begun it, and entered nothing yet; 0: none */
	/* Of all: */
	uint32_t recorded;	  /* occurrences */
	enum range_what last_end; /* 0: none has ended */
};

/* Whether calls of @tid are recorded now. @first: the first thread of the process. */
static inline bool call_range_has(const struct call_range *r, pid_t tid, pid_t first)
{
	return r->range.state == RANGE_INSIDE && (!r->one || tid == (r->range.tid ? r->range.tid : first));
}

/* Whether thread @tid, at @sp, is farther out than the function that the occurrence began with: that has ended. */
static inline bool call_range_is_left(const struct call_range *r, pid_t tid, uint64_t sp)
{
	return r->range.tid == tid && r->range.options.from_is_function && sp > r->range.sp &&
	       sp - r->range.sp < TRACK_STACK_SPAN;
}

/* Whether a call at @sp, inside of @innermost (NULL: of none), lies deeper than what is recorded. */
static inline bool call_range_is_too_deep(const struct call_range *r, const struct track_call *innermost,
					  uint64_t sp)
{
	return r->depth && innermost && innermost->depth + 1 >= r->depth && sp < innermost->sp;
}

#endif
