/* bisect - a binary search. */
#ifndef WATCHCTL_BASE_BISECT_H
#define WATCHCTL_BASE_BISECT_H

#include <stddef.h>

/*
 * Of the indices 0 .. @n - 1 the first for which @is_before, an expression of the index @i, is false; @n: it is true for all. It must
 * be true for none behind one for which it is false.
 */
#define BISECT(n, i, is_before)                                                          \
	__extension__({                                                                  \
		size_t bisect_low_ = 0, bisect_high_ = (n);                              \
		while (bisect_low_ < bisect_high_) {                                     \
			const size_t i = bisect_low_ + (bisect_high_ - bisect_low_) / 2; \
			if (is_before)                                                   \
				bisect_low_ = (i) + 1;                                   \
			else                                                             \
				bisect_high_ = i;                                        \
		}                                                                        \
		bisect_low_;                                                             \
	})

#endif
