/* trap_block - whether a thread of the process has SIGTRAP blocked, and not only while it makes another. */
#ifndef WATCHCTL_TARGET_PROC_TRAP_BLOCK_H
#define WATCHCTL_TARGET_PROC_TRAP_BLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A mask that C libraries set for a moment while they make a thread: it includes the two signals that they
 * keep for themselves.
 */
bool trap_block_is_librarys(uint64_t blocked);

/* Looks again for some 10 ms, at most 100 ms, until each thread that blocked it does not, or has ended. */
bool trap_is_blocked(pid_t pid);

struct proc_status;

/* The thread, whose status is @s, blocks it, or waits for it by sigwait() and the like, for which it blocks it. */
bool trap_is_blocked_in(pid_t pid, pid_t tid, const struct proc_status *s);

/* A thread that waits for it, among others, by sigwait() and the like at this moment. 0: none. */
pid_t trap_find_waiter(pid_t pid);

#endif
