/*
 * eh_frame_row - the row of the table that an FDE's instructions make; private to eh_frame.
 */
#ifndef WATCHCTL_CODE_UNWIND_EH_FRAME_ROW_H
#define WATCHCTL_CODE_UNWIND_EH_FRAME_ROW_H

#include "watchctl/code/unwind/eh_frame_find.h"

enum how {
	HOW_UNSPECIFIED, /* the table says nothing */
	HOW_UNDEFINED,
	HOW_SAME,
	HOW_OFFSET,	/* stored at CFA + value */
	HOW_VAL_OFFSET, /* is CFA + value */
	HOW_EXPRESSION, /* stored where the expression says, which stands at value */
	HOW_OTHER,	/* in a form that no rule has */
};

enum { SAVED_RSP = UNWIND_SAVES, REGISTERS };

struct row {
	bool cfa_by_expression;
	/*
	 * What few tables say, and not all who evaluate them get right: a register is kept in one that has a rule of
	 * its own, or in none of regs.h's; an expression is not plain (eh_frame_expression.h); a value is
	 * given by its distance from the CFA, which libunwind 1.6 takes for another instruction; a row's address is
	 * written in full. True also where it is said of a row before.
	 */
	bool entangled;
	uint8_t cfa_reg; /* above WREG_R15: none that a rule can name */
	uint8_t how[REGISTERS];
	int32_t value[REGISTERS];
	int64_t cfa; /* offset, or where the expression stands */
};

/* The row that holds @pc, which @fde holds. False: the instructions are not understood. */
bool eh_row(const struct fde *fde, uint64_t pc, struct row *ret);

#endif
