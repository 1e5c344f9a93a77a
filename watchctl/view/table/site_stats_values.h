/*
 * site_stats_values - which values were seen, and how often, in a bounded space: each of them while there are
 * few; where there are more, and they are numbers, a histogram (see value_spread.h); of others the first ones
 * that came, and how many accesses had yet another value.
 */
#ifndef WATCHCTL_VIEW_TABLE_SITE_STATS_VALUES_H
#define WATCHCTL_VIEW_TABLE_SITE_STATS_VALUES_H

#include <stdbool.h>

#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/view/table/value_spread.h"

#define SITE_VALUES_MAX 48u /* distinct ones */

struct site_value {
	uint64_t value; /* as in the event; of a bit field, all but its bits are 0 */
	uint64_t count;
};

/* Zero-initialised is empty. */
struct site_values {
	struct site_value *v; /* in the order in which they were first seen, unless there is a histogram */
	size_t n, cap, last;
	uint64_t total;
	uint64_t other; /* of the total: those with a value that is not in v */
	/* Numbers of which there were more than SITE_VALUES_MAX: all of them, by magnitude. */
	struct value_spread *positive, *negative; /* zero is positive; NULL: none yet */
	bool incomplete;			  /* memory ran out: some are not counted */
};

/* Counts the value @raw of @size bytes (1, 2, 4, 8) of type @t; all of one site have the same type. */
void site_values_add(struct site_values *s, const struct value_type *t, unsigned int size, uint64_t raw);

/* True if all are counted in the histogram. */
bool site_values_are_spread(const struct site_values *s);

/* A range of values, both bounds included. */
struct site_value_range {
	int64_t low, high; /* as unsigned ones where !is_negative */
	bool is_negative;  /* both bounds are below 0 */
	uint64_t count;
};

/*
 * Of a histogram: at most @n (at least 4) ranges with accesses in them, in ascending order. Returns how many.
 */
size_t site_values_ranges(const struct site_values *s, struct site_value_range *ret, size_t n);

/* A copy that later additions do not change. False: no memory, *@ret is empty. */
bool site_values_copy(const struct site_values *s, struct site_values *ret);

void site_values_deinit(struct site_values *s);

#endif
