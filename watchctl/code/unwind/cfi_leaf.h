/*
 * cfi_leaf - the rule of a function that has no CFI but never moves its stack; private to watchctl/code/.
 *
 * musl's memcpy and memset, and much other assembly, have no unwind table. They are where a watched variable
 * is often written, and their caller is what people look for.
 */
#ifndef WATCHCTL_CODE_UNWIND_CFI_LEAF_H
#define WATCHCTL_CODE_UNWIND_CFI_LEAF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/unwind/unwind_rule.h"

/* Code further from its function's start is not looked at. */
#define CFI_LEAF_MAX 4096u

/*
 * @code holds @len bytes from the start of a function on, and perhaps of what follows it. True when the
 * instruction at @offset is reached from the start, along its jumps, and nothing that is reached calls, or
 * writes rsp or a callee-saved register: then the return address lies at rsp throughout, and *@ret says so.
 */
bool cfi_leaf_rule(const uint8_t *code, size_t len, size_t offset, struct unwind_rule *ret);

#endif
