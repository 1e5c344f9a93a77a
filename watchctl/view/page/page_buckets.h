/*
 * page_buckets - what happened in each part of a span of time whose end is not known yet: always between half
 * and all of PAGE_BUCKETS parts of equal length, which are joined by twos when the span grows.
 */
#ifndef WATCHCTL_VIEW_PAGE_PAGE_BUCKETS_H
#define WATCHCTL_VIEW_PAGE_PAGE_BUCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/dwarf/value_type.h"

#define PAGE_KINDS 5 /* enum access_kind */

struct page_bucket {
	uint64_t n[PAGE_KINDS];
	uint64_t changes; /* accesses with old and new value, and these differ */
	bool has_value;
	uint64_t first, last, min,
		max; /* of the values after the accesses, as struct access_event has them */
};

struct page_sample {
	uint8_t kind; /* enum access_kind */
	bool changes, has_value;
	uint64_t value;
	unsigned int size;
	const struct value_type *type; /* orders the values */
};

struct page_buckets {
	uint64_t width_ns; /* 0: empty */
	struct page_bucket *v;
	size_t n, cap; /* used and all of them */
};

/* @cap: at most that many parts, a power of two. False: no memory. */
bool page_buckets_init(struct page_buckets *b, size_t cap);

/* Counts @s at @ns after the common beginning. */
void page_buckets_add(struct page_buckets *b, uint64_t ns, const struct page_sample *s);

void page_buckets_deinit(struct page_buckets *b);

/* Whether the value @a is less than @b. */
bool page_value_less(const struct value_type *t, unsigned int size, uint64_t a, uint64_t b);

#endif
