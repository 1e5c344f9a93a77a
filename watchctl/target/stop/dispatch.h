/*
 * dispatch - syscall user dispatch (prctl(2), PR_SET_SYSCALL_USER_DISPATCH): a thread whose system calls the
 * kernel turns into SIGSYS, for the program to make them itself, unless they come from one range of code or
 * a byte of the program's allows them for now. Wine and Proton run Windows programs so. A system call of
 * ours, which comes from neither, can kill such a program.
 */
#ifndef WATCHCTL_TARGET_STOP_DISPATCH_H
#define WATCHCTL_TARGET_STOP_DISPATCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "watchctl/target/stop/tracee.h"

/*
 * A stopped thread would get SIGSYS for a system call of ours now. False also where the kernel does not tell
 * (before Linux 6.4).
 */
bool dispatch_bars(const struct tracee *t);

/* The program catches SIGSYS, without which dispatch would kill it. Stops nobody. */
bool dispatch_is_possible(pid_t pid);

/*
 * A thread of @pid whose system calls are dispatched, whatever that byte says at the moment; 0: none, or not
 * known. Where dispatch is possible each thread is stopped in turn until one is found, for some 50 us each.
 */
pid_t dispatch_find(pid_t pid);

#endif
