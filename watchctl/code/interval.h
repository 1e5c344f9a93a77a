/*
 * interval - address ranges that may nest, sorted so that the innermost one around an address is
 * found by binary search; private to watchctl/code/.
 */
#ifndef WATCHCTL_CODE_INTERVAL_H
#define WATCHCTL_CODE_INTERVAL_H

#include <stddef.h>
#include <stdint.h>

struct interval {
	uint64_t start, end; /* [start, end) */
	uint64_t reach;	     /* set by interval_sort() */
	uint32_t rank;	     /* among equal starts and ends, the highest wins */
	uint32_t item;	     /* the owner's */
};

struct intervals {
	struct interval *v;
	size_t n, cap;
};

/* After the last push, before the first search. */
void intervals_sort(struct intervals *l);

/*
 * The innermost interval around @addr, or NULL. With @last, the result of an earlier call for the same
 * address: the next one outward.
 */
const struct interval *intervals_find(const struct intervals *l, uint64_t addr, const struct interval *last);

void intervals_deinit(struct intervals *l);

#endif
