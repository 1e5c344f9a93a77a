/*
 * self_stack - which memory of the calling thread's stack can be read without a fault.
 */
#ifndef STACKWALK_SELF_STACK_H
#define STACKWALK_SELF_STACK_H

#include <stdbool.h>
#include <stdint.h>

#define SELF_PAGE 4096u

/* What can be read from @start on, up to @end. */
struct self_stack {
	uint64_t start, end;
	bool own; /* the thread's own: @end is its end */
};

/* Of the calling thread: all zero until it is known. Only self_stack.c writes it; walks look at it first. */
struct self_own_stack {
	uint64_t start, end;
	uint64_t other_start,
		other_end; /* has been looked at, and does not reach up to where a stack begins */
};

extern _Thread_local struct self_own_stack self_own_stack;

/* Once, when the library is loaded. Before it, the main thread's stack is treated as any other memory. */
void self_stack_setup(void);

/* True when the 8 bytes at @addr can be read. A system call; nothing is touched. */
bool self_readable(uint64_t addr);

/* The stack that @sp points into. Nothing of it when *@sp cannot be read: start and end are equal. */
void self_stack_at(uint64_t sp, struct self_stack *ret);

/* For a stack that is not the thread's own: true when it can be read up to @end, *@s then says so. */
bool self_stack_reaches(struct self_stack *s, uint64_t end);

#endif
