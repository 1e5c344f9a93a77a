/* insn_regs - which registers an instruction takes values from, and which it leaves nothing of. Wraps Zydis,
 * as insn.h does. */
#ifndef WATCHCTL_CODE_INSN_INSN_REGS_H
#define WATCHCTL_CODE_INSN_INSN_REGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct insn_regs {
	/*
	 * Bit i: enum reg i (general registers), vector register i. Read: its value matters; so not by
	 * `xor eax, eax`, nor where only the part that is left alone is meant (cvtsi2sd xmm0, rax).
	 */
	uint32_t reads, vector_reads;
	uint32_t wide_reads; /* of @reads: more than the low 32 bits of it */
	/* Likewise: it, or the part of it that is spoken of (setne cl), is new afterwards. */
	uint32_t writes, vector_writes;
	/* Of @writes and @vector_writes, those that it names as its destination; and those that it may leave
	 * (cmov). */
	uint32_t named_writes, named_vector_writes;
	uint32_t vector_joins; /* it puts a part into it, and keeps the low one (movhps, pinsrd) */
	uint8_t rax_reads,
		rax_writes; /* of rax alone: bit i for byte i; 32 bits that are written are all 64 */
	bool pushes;	    /* push REG: its value is kept, or only room is made */
	bool saves_at_rsp, saves_at_rbp; /* mov of a register to memory there: kept, and perhaps not used */
};

/* Of the instruction in @bytes. False: it does not decode. */
bool insn_regs_find(const uint8_t *bytes, size_t len, struct insn_regs *ret);

#endif
