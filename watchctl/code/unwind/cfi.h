/*
 * cfi - unwind rules from .eh_frame and .debug_frame.
 */
#ifndef WATCHCTL_CODE_UNWIND_CFI_H
#define WATCHCTL_CODE_UNWIND_CFI_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/code/memory_view.h"
#include "watchctl/code/unwind/unwind_rule.h"

struct cfi;

struct cfi *cfi_new(void); /* NULL: no memory */
void cfi_free(struct cfi *c);

/* As symbolizer_add/_remove. */
bool cfi_add(struct cfi *c, const struct module *m);
void cfi_remove(struct cfi *c, uint64_t start, uint64_t end);

/*
 * The rule for the row that holds @pc. Pass the address itself for an innermost or interrupted
 * frame, the return address minus one otherwise. Code outside any module or without CFI gives
 * UNWIND_NO_RULE, unless its rule can be proved from the code itself; code of a MODULE_JIT (module_jit.h)
 * gives UNWIND_FP, which nothing proves: see whether it leads to code that a call could return to.
 */
void cfi_rule(struct cfi *c, uint64_t pc, struct unwind_rule *ret);

/* Bounds of the FDE that holds @pc; false: none. */
bool cfi_function(struct cfi *c, uint64_t pc, uint64_t *start, uint64_t *end);

/* @len bytes of code at @addr, as the module's file has them. False: it does not, or cannot be read. */
bool cfi_code(struct cfi *c, uint64_t addr, void *buf, size_t len);

/*
 * One step outwards from code that has a table but no rule, by libunwind (unwind_slice): as unwind_step(), but
 * with UNWIND_STEP_NO_RULE also where it leads down the stack, or to what is not code behind a call. @exact: the frame of *regs is
 * innermost or was interrupted, and all of its registers are known. In other code it is UNWIND_STEP_NO_RULE.
 */
enum unwind_step_result cfi_step_by_table(struct cfi *c, bool exact, const struct memory_view *mem,
					  struct regs *regs);

/* Whether that may do more than the rule for @pc, passed as to cfi_rule(): there is a table, and no rule. */
bool cfi_has_table_only(struct cfi *c, uint64_t pc);

/* From now on none of the two above does: for those who want to know what rules alone do. */
void cfi_use_rules_only(struct cfi *c);

/*
 * Walks from @regs, by rules, and by libunwind where there is none. frame[0] = regs.rip; frame[i] is a return address, or above a signal frame the
 * interrupted address. Signal frames are frames too (the restorer's address). Returns how many, 1..cap.
 */
unsigned int cfi_walk(struct cfi *c, const struct regs *regs, const struct memory_view *mem, uint64_t *frame,
		      unsigned int cap, enum walk_end *why);

#endif
