/* shared_area - maps the memory that was made shared in another process into ours: the same pages. */
#ifndef WATCHCTL_TARGET_SHARED_AREA_H
#define WATCHCTL_TARGET_SHARED_AREA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The mapping at [start, start + size) of process @pid, readable and writable, if it is still the anonymous
 * shared one that was made there: the process may have put another in its place, of a file that it may read
 * and we may write. NULL: it is not, or that is not permitted (it takes CAP_CHECKPOINT_RESTORE or root).
 */
void *shared_area_map(pid_t pid, uint64_t start, size_t size);

#endif
