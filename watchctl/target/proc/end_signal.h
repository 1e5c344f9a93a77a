/* end_signal - which signal ended a process, which need not be our child. */
#ifndef WATCHCTL_TARGET_PROC_END_SIGNAL_H
#define WATCHCTL_TARGET_PROC_END_SIGNAL_H

#include <sys/types.h>

/*
 * 0: none did, or it cannot be known: whoever waited for it was faster, and the kernel is older than
 * Linux 6.15.
 * @pidfd: of process @pid, which has ended.
 */
int end_signal(pid_t pid, int pidfd);

#endif
