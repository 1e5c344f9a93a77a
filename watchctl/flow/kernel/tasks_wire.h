/* tasks_wire - one record of tasks.bpf.c for each thread of the system. */
#ifndef WATCHCTL_FLOW_KERNEL_TASKS_WIRE_H
#define WATCHCTL_FLOW_KERNEL_TASKS_WIRE_H

#include <stdint.h>

#include "watchctl/code/regs.h"

struct tasks_record {
	int32_t pid, tid, parent;   /* as our own pid namespace numbers them; 0: it is not in it */
	int32_t own_tid;	    /* as its own does */
	uint32_t state, exit_state; /* task_struct.__state, .exit_state: include/linux/sched.h */
	uint32_t on_cpu;	    /* it runs just now: its registers are not its own */
	uint32_t is_kernel, has_regs;
	uint32_t
		is_32bit; /* it runs code of i386: its system calls are others, and its registers are not read */
	uint32_t unused;
	int32_t blocker_tid; /* who has the lock below, or took it last; 0: not known */
	uint64_t ran_ns;     /* CPU time since it began */
	/* When it was last seen running: on the scheduler's clock, for differences between threads only. */
	uint64_t ran_at_ns;
	uint64_t clear_child; /* set_tid_address(2) */
	/* The kernel's lock that it waits for, its kind in the low bits (include/linux/hung_task.h); 0: none, or not kept. */
	uint64_t blocker;
	int64_t syscall; /* -1: it entered the kernel otherwise */
	struct regs regs;
	char comm[16];
};

#endif
