/*
 * cfi_frame - the rule of a function that has no CFI but sets up a frame pointer; private to watchctl/code/.
 *
 * Assembly, and the code that V8 and others of its kind bring along compiled, often has no unwind table but
 * keeps rbp, from some point on, as the JIT code above it does. Where that point is, the code itself shows.
 */
#ifndef WATCHCTL_CODE_UNWIND_CFI_FRAME_H
#define WATCHCTL_CODE_UNWIND_CFI_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/unwind/unwind_rule.h"

/* Code further from its function's start is not looked at. */
#define CFI_FRAME_MAX 4096u

/*
 * @code holds @len bytes from the start of a function on, and perhaps of what follows it. True when the
 * instruction at
 * @offset, or the call whose last byte is there, is reached from the start, along jumps, in one state only:
 * with all that belongs to callers as the call left it, or with rbp pushed besides, or with rbp set up and
 * left alone since. *@ret says so. In the last state the other callee-saved registers are said to be
 * unchanged too, which is not looked at: callers are found by rbp there, and no compiler's CFA hangs on the
 * others.
 */
bool cfi_frame_rule(const uint8_t *code, size_t len, size_t offset, struct unwind_rule *ret);

/*
 * For code whose function's start is not known, as in a stripped library: @code holds @len bytes from an
 * instruction on. True when execution can go on from there to where the function takes its frame down:
 * "leave" or "mov rsp, rbp; pop rbp" with rbp left alone, or pops, that of rbp among them, and a return.
 * *@ret says where the caller's registers are. A way ends at a call, which may never
 * return, so that another function's code follows it; at an int3; at a write to rbp or rsp that is none of
 * these; and where more is pushed than was there.
 */
bool cfi_frame_rule_ahead(const uint8_t *code, size_t len, struct unwind_rule *ret);

#endif
