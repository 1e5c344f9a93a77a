/*
 * landing_pads - where exceptions enter a function: the call-site table of its language-specific data, as gcc and clang
 * write it for C++, Rust and the cleanups of C (.gcc_except_table).
 */
#ifndef WATCHCTL_CODE_UNWIND_LANDING_PADS_H
#define WATCHCTL_CODE_UNWIND_LANDING_PADS_H

#include <stdint.h>

#include "watchctl/code/unwind/eh_frame.h"

/*
 * Calls @each with the address of each landing pad of @f, whose data lies in @data (from f->lsda on). What cannot be
 * understood ends it.
 */
void landing_pads_each(const struct eh_range *data, const struct eh_function *f,
		       void (*each)(void *ctx, uint64_t pad), void *ctx);

#endif
