/*
 * self_walk - the stack of the calling thread, walked from inside it.
 *
 * Async-signal-safe: no lock, no allocation, no errno, nothing of libc but _dl_find_object(). Rules come from
 * the .eh_frame of the mapped modules, compiled at the first sight of a code address and kept, in a form for
 * the common case (caller's rip, rsp and rbp only) in one table of the process.
 */
#ifndef STACKWALK_SELF_WALK_H
#define STACKWALK_SELF_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/unwind/unwind_rule.h"

/* What a walk starts from: the registers that a call preserves, in the frame that rip is in. */
struct self_regs {
	uint64_t rip, rsp, rbp, rbx, r12, r13, r14, r15;
};

/* Once, when the library is loaded; before that and after, self_walk() works too, only slower. */
void self_walk_setup(void);

/*
 * Stores frame[0] = rip and the frames outside it, at most @max (1 or more), and returns how many; *why says
 * why it ended. @exact: rip is where the thread was interrupted, not a return address.
 */
uint32_t self_walk(const struct self_regs *from, bool exact, uint64_t *frame, uint32_t max,
		   enum walk_end *why);

/*
 * The same from where a signal interrupted the thread, with all its registers up to rip: some code, at its
 * beginning, has its frame in one that calls do not preserve.
 */
uint32_t self_walk_interrupted(const struct regs *from, uint64_t *frame, uint32_t max, enum walk_end *why);

#endif
