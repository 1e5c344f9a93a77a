/*
 * shortfall - a file that should have been read and could not be, for a reason that its reader does not
 * expect: no descriptors left, no permission, a failing disk. What it would have reported is left out, and the
 * program says so once, at its end.
 */
#ifndef WATCHCTL_BASE_READ_FAILURE_H
#define WATCHCTL_BASE_READ_FAILURE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * A file that is not there is nothing odd, nor is @sys_errno 0. Of several, the first is kept, and the others
 * are counted: from one thread only.
 */
void read_failure_note(const char *path, int sys_errno);

/* Any was for want of descriptors: what was not found for it may be there. */
bool read_failure_of_descriptors(void);

/* Takes the first one back, for somebody else to note: of a worker process its parent. False: there was none.
 */
bool read_failure_take(char *path, size_t len, int *sys_errno);

/* "PATH: why", and how many more. The path as it is: not fit for a terminal. False: there was none. */
bool read_failure_describe(char *buf, size_t len);

#endif
