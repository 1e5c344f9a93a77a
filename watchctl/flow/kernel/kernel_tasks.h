/*
 * kernel_tasks - every thread of the system, as the kernel knows it, by a BPF program: all registers, CPU time, when it ran last.
 * Needs root, or CAP_BPF and CAP_PERFMON, and a kernel with BTF.
 */
#ifndef WATCHCTL_FLOW_KERNEL_KERNEL_TASKS_H
#define WATCHCTL_FLOW_KERNEL_KERNEL_TASKS_H

#include <stdbool.h>

#include "watchctl/flow/kernel/tasks_wire.h"

struct kernel_tasks;

/* NULL: not to be had; *why then says what is missing, a phrase. */
struct kernel_tasks *kernel_tasks_open(const char **why);
void kernel_tasks_close(struct kernel_tasks *k); /* accepts NULL */

/* Calls @take with each thread there is, until it returns false. False: it did, or the kernel gave less than all. */
bool kernel_tasks_read(struct kernel_tasks *k, bool (*take)(void *ctx, const struct tasks_record *r),
		       void *ctx);

#endif
