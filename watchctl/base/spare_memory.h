/*
 * spare_memory - address space that is kept for later: what has been begun in another process must be undone
 * even when everything else of ours has used up the rest.
 */
#ifndef WATCHCTL_BASE_SPARE_MEMORY_H
#define WATCHCTL_BASE_SPARE_MEMORY_H

#include <stdbool.h>

struct spare_memory {
	void *block; /* NULL: nothing is kept */
};

/* False: so much is not left; then none is kept. */
bool spare_memory_keep(struct spare_memory *s);

/* It can be had now. Accepts zero-initialised, and may be called again. */
void spare_memory_release(struct spare_memory *s);

#endif
