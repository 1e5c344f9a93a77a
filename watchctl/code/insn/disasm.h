/*
 * disasm - an instruction as people read it. Wraps capstone: no type of it leaves disasm.c. What an instruction
 * does to memory is insn's business.
 */
#ifndef WATCHCTL_CODE_INSN_DISASM_H
#define WATCHCTL_CODE_INSN_DISASM_H

#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/insn/insn.h"

/*
 * The instruction at @addr in @syntax; "" when it does not decode. AVX-512, and what else capstone
 * gets wrong, or takes for one of another length, has insn_text()'s words.
 */
void disasm_text(enum insn_syntax syntax, const uint8_t *bytes, size_t len, uint64_t addr, char *buf,
		 size_t cap);

#endif
