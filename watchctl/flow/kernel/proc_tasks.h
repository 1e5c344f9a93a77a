/*
 * proc_tasks - every thread that we may look at, by /proc: what is to be had without BPF. Of registers there are only those
 * that /proc shows, and has_regs is 0: arguments of the system call (rdi, rsi, rdx, r10, r8, r9), rsp and rip.
 */
#ifndef WATCHCTL_FLOW_KERNEL_PROC_TASKS_H
#define WATCHCTL_FLOW_KERNEL_PROC_TASKS_H

#include <stdbool.h>
#include <sys/types.h>

#include "watchctl/flow/kernel/tasks_wire.h"

/* Calls @take with each thread there is, until it returns false. False: it did. A kernel thread has @is_kernel. */
bool proc_tasks_read(bool (*take)(void *ctx, const struct tasks_record *r), void *ctx);

#endif
