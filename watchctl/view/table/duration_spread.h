/*
 * duration_spread - how many of many durations were how long, in a bounded space: 16 steps for each power of two, so that two of one step
 * are less than 7 percent apart. Below 16 ns each has its own; from four and a half days on all share one.
 */
#ifndef WATCHCTL_VIEW_TABLE_DURATION_SPREAD_H
#define WATCHCTL_VIEW_TABLE_DURATION_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

#define DURATION_STEPS 16u /* for each power of two */
#define DURATION_SPREAD (48u * DURATION_STEPS)

/* Counts @ns in *@spread, which is made by the first one, DURATION_SPREAD counts, and is the caller's to free. False: no memory. */
bool duration_spread_add(uint64_t **spread, uint64_t ns);

/* So long were @permille of the @n durations in @spread at most, within a step, and never longer than @max_ns. NULL: 0. */
uint64_t duration_spread_quantile(const uint64_t *spread, uint64_t n, uint64_t max_ns, unsigned int permille);

#endif
