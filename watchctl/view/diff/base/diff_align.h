/*
 * diff_align - which items of two sequences belong together. Time and memory grow with the length of the
 * sequences, whatever is in them: where the best answer would cost more, a good one is taken.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_ALIGN_H
#define WATCHCTL_VIEW_DIFF_DIFF_ALIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct diff_item {
	uint64_t exact; /* equal: they are the same, and so is all inside */
	uint32_t shape; /* equal: they are of one kind, and so is all inside */
	uint32_t key;	/* equal: they are of one kind, and can be compared */
};

/* A sequence whose items lie in larger structures, each of which begins with one; or are made when asked for. */
struct diff_sequence {
	const void *base;
	size_t stride;
	const uint32_t *index; /* of the i-th item in base; NULL: i */
	uint32_t n;
	struct diff_item (*item)(const void *base, uint32_t index); /* NULL: they lie there */
};

static inline struct diff_item diff_item_at(const struct diff_sequence *s, uint32_t i)
{
	const uint32_t index = s->index ? s->index[i] : i;

	if (s->item)
		return s->item(s->base, index);
	return *(const struct diff_item *)((const char *)s->base + s->stride * index);
}

#define NO_MATE UINT32_MAX

/*
 * Fills mate[i] of each item of @a: the item of @b that belongs to it, or NO_MATE. Mates have equal keys, and
 * stand in the same order in both. False: no memory.
 */
bool diff_align(const struct diff_sequence *a, const struct diff_sequence *b, uint32_t *mate);

#endif
