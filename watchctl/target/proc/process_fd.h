/* process_fd - a descriptor of a process (pidfd), which tells when it ends, and is never of another with its number. */
#ifndef WATCHCTL_TARGET_PROC_PROCESS_FD_H
#define WATCHCTL_TARGET_PROC_PROCESS_FD_H

#include <stdbool.h>
#include <sys/types.h>

#include "watchctl/base/error.h"

/* Leaves *@fd as it is unless it is -1. WC_ETARGET: there is no such process. */
struct wc_error *process_fd_open(pid_t pid, int *fd);

/* Waits up to @timeout_ms for the end. False where @fd is -1. */
bool process_fd_ended(int fd, int timeout_ms);

#endif
