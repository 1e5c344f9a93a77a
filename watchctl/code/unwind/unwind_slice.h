/*
 * unwind_slice - one frame outwards where no unwind_rule says how, by libunwind, over registers and a slice of
 * stack that were recorded. Wraps libunwind: no type of it leaves unwind_slice.c.
 *
 * Never in the program itself, and never in a process: libunwind sees only the instructions that it is given,
 * the registers that are known, and memory through the view.
 */
#ifndef WATCHCTL_CODE_UNWIND_UNWIND_SLICE_H
#define WATCHCTL_CODE_UNWIND_UNWIND_SLICE_H

#include <stdbool.h>

#include "watchctl/code/memory_view.h"
#include "watchctl/code/unwind/unwind_program.h"
#include "watchctl/code/unwind/unwind_rule.h"

/* What is kept from one step to the next: of one thread. */
struct unwind_slice;

struct unwind_slice *unwind_slice_new(void); /* NULL: no memory */
void unwind_slice_free(struct unwind_slice *u);

/*
 * As unwind_step(), by the row of @p that holds @row, an address as it counts in @p. @exact: *regs are all
 * known, as of a thread or where a signal interrupted it; else only those that a callee must give back are.
 * UNWIND_STEP_OK or UNWIND_STEP_NO_RULE: instructions that libunwind does not know, a register that is not
 * known, memory that is not in the slice. What it led to is not checked.
 */
enum unwind_step_result unwind_slice_step(struct unwind_slice *u, const struct unwind_program *p,
					  uint64_t row, bool exact, const struct memory_view *mem,
					  struct regs *regs);

#endif
