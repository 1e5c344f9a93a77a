/*
 * compare - units of work of two logs, by the median of how long they and their waits took. Units are of one kind if their threads are named
 * alike (baseline.h) and they begin after the same call on the same kind of object; waits, if they are also for a thread named alike.
 */
#ifndef WATCHCTL_FLOW_BLAME_COMPARE_H
#define WATCHCTL_FLOW_BLAME_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/blame/link.h"

#define COMPARE_LEAST \
	3u /* of a kind of units in each log, and of its waits in the bad one: fewer have no median to speak of */

struct compared {
	uint64_t good_ns, bad_ns; /* medians */
	size_t good, bad;	  /* so many */
	uint32_t node;		  /* the longest in the bad log; of a wait the unit that has it */
	uint32_t wait;		  /* edge, or FLOW_NONE: the unit as a whole */
};

/* That grew, most first: waits, then units. At most @cap; of @chosen threads of @bad, NULL: of all. wc_enomem. */
struct wc_error *compare_find(const struct blame_log *good, const struct blame_log *bad, const bool *chosen,
			      struct compared *ret, size_t cap, size_t *n);

#endif
