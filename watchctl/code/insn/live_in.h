/*
 * live_in - which argument registers the code of a function reads before it writes them: what it takes, where
 * no debug information shows. Bounded, and on the side of leaving out: a register is only named when there is
 * a path from the function's start on which its first use is a read of the value that the caller left there.
 */
#ifndef WATCHCTL_CODE_INSN_LIVE_IN_H
#define WATCHCTL_CODE_INSN_LIVE_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/insn/code_paths.h"

struct live_in {
	uint8_t gprs; /* bit i: the i-th of rdi, rsi, rdx, rcx, r8, r9 */
	uint8_t wide; /* of @gprs: more than the low 32 bits is read; the rest may be what an earlier call
			 left */
	uint8_t xmms; /* bit i: xmm i, 0..7 */
};

/* Of the code that begins at @addr. */
struct live_in live_in_find(const struct code_view *code, uint64_t addr);

#endif
