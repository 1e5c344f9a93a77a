/* The instructions that insn_emulate() knows. */
#ifndef WATCHCTL_STEP_INSN_INSN_EMULATE_H
#define WATCHCTL_STEP_INSN_INSN_EMULATE_H

#include <stdbool.h>
#include <stdint.h>

/* How an instruction reads, for the few that are known. */
struct insn_form {
	uint8_t len, opcode;
	bool two_byte; /* 0f, opcode */
	bool fs, rep;  /* prefixes */
	bool has_rex, has_modrm, is_mem, rip_relative;
	uint8_t size;	    /* bytes of an operand that is not a byte: 2, 4, 8 */
	uint8_t reg, rm;    /* 0..15, as the CPU numbers registers; rm only if !is_mem */
	uint8_t ext;	    /* of the ModRM byte's reg: which one of a group */
	int8_t base, index; /* -1: none */
	uint8_t scale;	    /* shift */
	int64_t displacement, imm;
};

/* False: not one of those. */
bool insn_form_read(const uint8_t *bytes, uint32_t len, struct insn_form *ret);

/* Whether it writes to memory other than by pushing: then only the stack's is emulated. */
bool insn_form_stores(const struct insn_form *f);

#endif
