/*
 * live_stack - the words of a sleeping thread's stack from its stack pointer up, for guesses by the addresses that lie
 * there: what a thread works with is mostly there, but so is what it worked with before.
 */
#ifndef WATCHCTL_FLOW_EXPLAIN_LIVE_STACK_H
#define WATCHCTL_FLOW_EXPLAIN_LIVE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/flow/explain/look.h"

#define LIVE_STACK_WORDS 8192u /* 64 KB */

struct live_stack {
	size_t n;
	uint64_t word[LIVE_STACK_WORDS];
};

/* NULL: its stack pointer is not known (0), the memory cannot be read, or there is no memory for it. */
struct live_stack *live_stack_read(const struct look_process *p, const struct look_thread *t);
void live_stack_free(struct live_stack *s); /* accepts NULL */

static inline void live_stack_freep(struct live_stack **s)
{
	live_stack_free(*s);
}

/* The first word from @from on that is @value; n: none. */
size_t live_stack_find(const struct live_stack *s, size_t from, uint64_t value);

/* The word with the return address to frame @i, by the addresses of the frames in their order; n: not found. */
size_t live_stack_frame(const struct live_stack *s, const struct look_thread *t, unsigned int i);

/* The stack of @t holds @value; @from_frame: behind the return address to that frame, 0: anywhere. */
bool live_stack_holds(const struct look_process *p, const struct look_thread *t, uint64_t value,
		      unsigned int from_frame);

#endif
