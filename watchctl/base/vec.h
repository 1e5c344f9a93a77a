/* vec - growing arrays: three members of the owner (items, count, capacity), one function. */
#ifndef WATCHCTL_BASE_VEC_H
#define WATCHCTL_BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Makes room for @need items of @size bytes in *@items. False: no memory, nothing changed. */
static inline bool vec_reserve(void **items, size_t *cap, size_t need, size_t size)
{
	size_t want = *cap ? *cap : 8;
	void *bigger;

	if (need <= *cap)
		return true;
	while (want < need)
		want *= 2;
	bigger = reallocarray(*items, want, size);
	if (!bigger)
		return false;
	*items = bigger;
	*cap = want;
	return true;
}

/* Appends @item to the array @v of @n items and capacity @cap; false when there is no memory. */
#define vec_push(v, n, cap, ...)                                                                        \
	(vec_reserve((void **)&(v), &(cap), (n) + 1, sizeof(*(v))) ? ((v)[(n)++] = (__VA_ARGS__), true) \
								   : false)

#endif
