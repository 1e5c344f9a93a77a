/*
 * insn_scan - the little of an instruction that a sweep over a whole module needs: its length, where it goes on, and
 * what it refers to. Wraps Zydis, as insn.h does, but decodes no operands: several times as fast.
 */
#ifndef WATCHCTL_CODE_INSN_INSN_SCAN_H
#define WATCHCTL_CODE_INSN_INSN_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where execution goes on. */
enum insn_flow {
	INSN_NEXT, /* at the next instruction only */
	INSN_CALL,
	INSN_JUMP,
	INSN_COND, /* jcc, loop, jrcxz: at its target or at the next one */
	INSN_RET,
	INSN_STOP,  /* ud2, hlt: not at all */
	INSN_BEGIN, /* xbegin: at its target when the transaction fails */
};

struct insn_brief {
	uint64_t target; /* of a direct call or jump, if has_target */
	uint64_t refers; /* the address of a rip-relative operand, if has_rip */
	uint64_t imm;	 /* an immediate of 32 or 64 bits, if has_imm */
	uint16_t name;	 /* for insn_scan_name() */
	uint8_t len;
	uint8_t flow; /* enum insn_flow */
	bool has_target, has_rip, has_imm;
	bool is_lea, is_nop, is_int3, is_endbr, is_syscall, is_locked;
	bool is_short; /* a jump whose displacement has 8 bits */
	bool is_odd; /* a jump or call with a prefix that processors disagree about: a displacement of 16 bits */
};

/*
 * Decodes the instruction at @addr in the @len bytes of @code. False: none, or cut off. NULL, 0 and the like are the
 * caller's mistakes.
 */
bool insn_scan(const uint8_t *code, size_t len, uint64_t addr, struct insn_brief *ret);

/* How many names there are, and each of them in Zydis' spelling: "jz". Static. */
size_t insn_scan_names(void);
const char *insn_scan_name(uint16_t name);

#endif
