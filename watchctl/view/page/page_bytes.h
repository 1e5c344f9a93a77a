/* page_bytes - bytes for a script to decode: numbers, seven bits a byte, low ones first, the top bit set in all but the last. */
#ifndef WATCHCTL_VIEW_PAGE_PAGE_BYTES_H
#define WATCHCTL_VIEW_PAGE_PAGE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/vec.h"

/* Zero-initialised is empty; v is freed by its owner. */
struct page_bytes {
	uint8_t *v;
	size_t n, cap;
};

/* Appends @v. False: no memory. */
static inline bool page_bytes_number(struct page_bytes *b, uint64_t v)
{
	if (!vec_reserve((void **)&b->v, &b->cap, b->n + 10, 1))
		return false;
	while (v >= 0x80) {
		b->v[b->n++] = (uint8_t)(v | 0x80);
		v >>= 7;
	}
	b->v[b->n++] = (uint8_t)v;
	return true;
}

#endif
