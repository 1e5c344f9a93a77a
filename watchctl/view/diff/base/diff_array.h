/*
 * diff_array - growing arrays that become as large as a log has calls. Small ones lie in the heap; large ones are
 * mappings of their own in huge pages, which cost a fault each 2 MB, and grow without a copy.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_ARRAY_H
#define WATCHCTL_VIEW_DIFF_DIFF_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes room for more than *@cap items of @size bytes, see diff_array_push(). False: no memory, nothing changed. */
bool diff_array_grow(void **items, size_t *cap, size_t size);

void diff_array_free(void *items, size_t cap, size_t size);

/* As vec_push(). */
#define diff_array_push(v, n, cap, ...)                                      \
	((n) < (cap) || diff_array_grow((void **)&(v), &(cap), sizeof(*(v))) \
		 ? ((v)[(n)++] = (__VA_ARGS__), true)                        \
		 : false)

#endif
