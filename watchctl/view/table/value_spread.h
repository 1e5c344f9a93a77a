/*
 * value_spread - how the values of many captures are spread, in a bounded space: a histogram whose buckets
 * are at most a sixteenth of their value wide; values below 32 have one each.
 */
#ifndef WATCHCTL_VIEW_TABLE_VALUE_SPREAD_H
#define WATCHCTL_VIEW_TABLE_VALUE_SPREAD_H

#include <stddef.h>
#include <stdint.h>

#define SPREAD_BUCKETS (61 * 16)

struct value_spread {
	uint64_t n, min, max;
	uint64_t bucket[SPREAD_BUCKETS];
};

/* @s: zero-initialised, or added to before. */
void value_spread_add(struct value_spread *s, uint64_t value);

/*
 * The bounds, both included, of the bucket that holds the median (of an even number, the lower of the two in
 * the middle), narrowed by min and max. @s must not be empty.
 */
void value_spread_median(const struct value_spread *s, uint64_t *low, uint64_t *high);

/* The bounds of bucket @i, both included. */
void value_spread_bounds(size_t i, uint64_t *low, uint64_t *high);

#endif
