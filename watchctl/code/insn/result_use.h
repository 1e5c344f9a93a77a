/*
 * result_use - whether somebody wants what a function has left in the register of results: by the code that is
 * gone on with, and by the function's own. A function without a result leaves something there, too.
 *
 * Both are bounded, and on the side of a result that counts for the code behind a call, of one that does not for
 * that of a function: each alone never makes a result that is one to none.
 */
#ifndef WATCHCTL_CODE_INSN_RESULT_USE_H
#define WATCHCTL_CODE_INSN_RESULT_USE_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/insn/code_paths.h"

enum result_use {
	RESULT_READ,   /* on some way it is read; or it cannot be known */
	RESULT_UNUSED, /* it is overwritten on every way, and not read before */
	RESULT_PASSED, /* on no way it is read, and on some the function that made the call returns with it */
};

/* Of the code at the return address @at. @vector: of xmm0, else of rax. */
enum result_use result_use_find(const struct code_view *code, uint64_t at, bool vector);

/*
 * Whether the function of @size bytes at @start gives rax, or with @vector xmm0, a value on purpose: whatever
 * way it comes to its return, it has put one there itself, and not used it for anything since. False: it does
 * not, or that cannot be known.
 */
bool result_is_set(const struct code_view *code, uint64_t start, uint64_t size, bool vector);

#endif
