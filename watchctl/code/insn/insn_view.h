/*
 * insn_view - an instruction in the words in which people ask for it: its name, its prefixes, its operands. Wraps
 * capstone: no type of it leaves insn_view.c. Lengths and accesses are insn's business.
 */
#ifndef WATCHCTL_CODE_INSN_INSN_VIEW_H
#define WATCHCTL_CODE_INSN_INSN_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INSN_VIEW_OPERANDS 8

enum insn_view_kind { INSN_VIEW_REG, INSN_VIEW_IMM, INSN_VIEW_MEM };

/* Names are static, in lower case; NULL: there is none. */
struct insn_view_operand {
	enum insn_view_kind kind;
	uint8_t size; /* bytes */
	const char *reg;
	int64_t imm; /* of a direct call or jump: where it goes */
	const char *base, *index;
	uint8_t scale;
	int64_t disp;
};

struct insn_view {
	uint8_t len;
	char name[32];	   /* without prefixes: "cmpxchg" */
	char prefixes[32]; /* "lock", "rep"; "": none */
	bool has_operands; /* they were asked for; else noperands is 0 */
	uint8_t noperands; /* of those that are written, explicit ones */
	struct insn_view_operand operand[INSN_VIEW_OPERANDS];
};

/* @operands: with them, which takes longer. False: capstone does not know the instruction. */
bool insn_view(const uint8_t *bytes, size_t len, uint64_t addr, bool operands, struct insn_view *ret);

#endif
