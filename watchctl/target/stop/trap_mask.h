/*
 * trap_mask - SIGTRAP in the signal mask of a traced thread. A breakpoint that is hit while the thread blocks
 * SIGTRAP makes the kernel unblock it, and set the process's action to the default, so that the thread cannot
 * miss it (force_sig_info_to_task() in kernel/signal.c).
 */
#ifndef WATCHCTL_TARGET_STOP_TRAP_MASK_H
#define WATCHCTL_TARGET_STOP_TRAP_MASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The thread stands at a hit whose signal its tracer has taken away. @mask: the thread's mask as it was last
 * seen, with SIGTRAP blocked; 0: it did not block it. @given_back: since the thread ran, the tracer has set a handler
 * again that the kernel had removed. True: the kernel has unblocked it at this hit, and the mask was put back. Else the
 * thread has changed its mask since: *mask becomes 0.
 */
bool trap_mask_restore(pid_t pid, pid_t tid, bool given_back, uint64_t *mask);

#endif
