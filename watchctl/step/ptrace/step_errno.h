/* step_errno - where errno of a thread is. */
#ifndef WATCHCTL_STEP_PTRACE_STEP_ERRNO_H
#define WATCHCTL_STEP_PTRACE_STEP_ERRNO_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * From a thread's pointer (fs_base) to its errno. libc's lies at the same distance in every thread, since
 * libc was there when the program began. @thread_pointer: of any thread of @pid, not 0. False: it cannot be
 * found.
 */
bool step_errno_offset(pid_t pid, uint64_t thread_pointer, int64_t *ret);

#endif
