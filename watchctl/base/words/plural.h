/* plural - the end of a noun behind a number. */
#ifndef WATCHCTL_BASE_WORDS_PLURAL_H
#define WATCHCTL_BASE_WORDS_PLURAL_H

#include <stdint.h>

/* "s", but "" for one. */
static inline const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

#endif
