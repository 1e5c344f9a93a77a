/* shared_area - maps the shared memory of another process into ours: the same pages. */
#ifndef WATCHCTL_TARGET_INJECT_SHARED_AREA_H
#define WATCHCTL_TARGET_INJECT_SHARED_AREA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The mapping at [start, start + size) of process @pid, readable and writable, if it is still the anonymous
 * shared one that was made there: the process may have put another in its place, of a file that it may read
 * and we may write. NULL: it is not, or that is not permitted (it takes CAP_CHECKPOINT_RESTORE or root).
 */
void *shared_area_map(pid_t pid, uint64_t start, size_t size);

/*
 * Where that is not permitted: System V memory of ours, to which a process of the same user can attach
 * itself, by *ret_id, with a system call (SHARED_AREA_ATTACH) and no descriptor. It goes when nobody has it
 * any more, whoever is killed. NULL: the above is permitted, or the process could not attach to it.
 */
void *shared_area_offer(pid_t pid, size_t size, int *ret_id);

#define SHARED_AREA_NAME "/SYSV00000000 (deleted)" /* as maps calls it */

/* Nobody else attaches to it from now on, not even another process of the same user. */
void shared_area_close(int id);

#define SHARED_AREA_ATTACH 30	   /* shmat(id, address, SHARED_AREA_OVER) */
#define SHARED_AREA_OVER 040000ull /* in place of what is mapped there */

#endif
