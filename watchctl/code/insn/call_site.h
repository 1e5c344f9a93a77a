/* call_site - whether an address is one that a call returns to, by the code before it. */
#ifndef WATCHCTL_CODE_INSN_CALL_SITE_H
#define WATCHCTL_CODE_INSN_CALL_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/insn/insn.h"

#define CALL_SITE_MAX 8u /* a prefix, the opcode, a memory operand with a displacement of 32 bits */

/*
 * Whether the @len bytes of @code end with a call. As instructions have no beginning that one could see from
 * their end, other bytes may look like one: false is sure, true is not.
 */
static inline bool call_site_ends(const uint8_t *code, size_t len)
{
	struct insn i;
	size_t k;

	for (k = 2; k <= CALL_SITE_MAX && k <= len; k++)
		if (insn_decode(code + len - k, k, 0, &i) && i.is_call && i.len == k)
			return true;
	return false;
}

#endif
