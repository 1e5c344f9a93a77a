/*
 * libdw gives the CFA as a DWARF expression, and for each register where it was saved as another, in which
 * DW_OP_call_frame_cfa comes first. Compilers and assembly authors use a handful of shapes of these:
 *
 *	CFA	bregx R, n			almost all code
 *		bregR n, deref			gcc's realigned stacks (rbp - 8), OpenSSL
 *		bregR n, deref, plus_uconst m
 *		bregR n, bregI 0, lit8, mul, plus, deref, plus_uconst m	OpenSSL's Montgomery code
 *		breg7 8, breg16 0, lit15, and, litN, ge, lit3, shl, plus	the linker's PLT
 *	saved	cfa, plus_uconst n		almost all code
 *		cfa, breg6 n			gcc's realigned stacks
 *		cfa, breg7 n			assembly; expressed from the CFA when that is rsp + m
 */
#include "tests/oracle/libdw_rule.h"

#include <dwarf.h>

#include <limits.h>
#include <stdlib.h>

struct ops {
	Dwarf_Op *v;
	size_t n;
};

/* DW_OP_breg0..31 and DW_OP_bregx alike: the register and what is added to it. */
static bool base_and_offset(const Dwarf_Op *op, unsigned int *reg, int64_t *off)
{
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*reg = op->atom - DW_OP_breg0;
		*off = (int64_t)op->number;
		return true;
	}
	if (op->atom == DW_OP_bregx) {
		*reg = (unsigned int)op->number;
		*off = (int64_t)op->number2;
		return true;
	}
	return false;
}

/* The threshold N of the PLT's expression; 0: it is not that. */
static unsigned int plt_threshold(const struct ops *e)
{
	static const uint8_t shape[] = { DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0,
					 DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,	 DW_OP_plus };
	const size_t varies = 4;

	if (e->n != sizeof(shape) || e->v[0].number != 8 || e->v[1].number != 0)
		return 0;
	for (size_t i = 0; i < e->n; i++)
		if (i != varies && e->v[i].atom != shape[i])
			return 0;
	if (e->v[varies].atom <= DW_OP_lit0 || e->v[varies].atom > DW_OP_lit15)
		return 0;
	return e->v[varies].atom - DW_OP_lit0;
}

/* "bregI 0, lit8, mul, plus" behind the base: how many operations that are, 0 or 4. */
static size_t convert_index(const struct ops *e, struct unwind_rule *rule)
{
	unsigned int reg;
	int64_t off;

	if (e->n < 6 || !base_and_offset(&e->v[1], &reg, &off) || reg > WREG_R15 || off ||
	    e->v[2].atom != DW_OP_lit8 || e->v[3].atom != DW_OP_mul || e->v[4].atom != DW_OP_plus)
		return 0;
	rule->cfa_index = (uint8_t)(reg + 1);
	return 4;
}

static bool convert_cfa(const struct ops *e, struct unwind_rule *rule)
{
	unsigned int reg, threshold = plt_threshold(e);
	int64_t off, off2 = 0;
	size_t at;

	if (threshold) {
		rule->kind = UNWIND_PLT;
		rule->cfa_off = 8;
		rule->cfa_off2 = (int16_t)threshold;
		return true;
	}
	if (!e->n || !base_and_offset(&e->v[0], &reg, &off) || reg > WREG_R15 || off != (int32_t)off)
		return false;
	rule->cfa_reg = (uint8_t)reg;
	rule->cfa_off = (int32_t)off;
	if (e->n == 1) {
		rule->kind = UNWIND_CFA_REG;
		return true;
	}
	at = 1 + convert_index(e, rule);
	if (e->v[at].atom != DW_OP_deref || e->n > at + 2)
		return false;
	if (e->n == at + 2) {
		if (e->v[at + 1].atom != DW_OP_plus_uconst)
			return false;
		off2 = (int64_t)e->v[at + 1].number;
	}
	if (off2 != (int16_t)off2)
		return false;
	rule->cfa_off2 = (int16_t)off2;
	rule->kind = UNWIND_CFA_DEREF;
	return true;
}

static bool set_save(struct unwind_rule *rule, unsigned int i, int64_t off)
{
	if (off % 8 || off / 8 <= INT16_MIN || off / 8 > INT16_MAX)
		return false;
	rule->save[i] = (int16_t)(off / 8);
	return true;
}

static bool convert_save(const struct ops *e, struct unwind_rule *rule, unsigned int i)
{
	unsigned int reg;
	int64_t off;

	if (!e->n || e->n > 2 || e->v[0].atom != DW_OP_call_frame_cfa)
		return false;
	if (e->n == 1)
		return set_save(rule, i, 0);
	if (e->v[1].atom == DW_OP_plus_uconst)
		return set_save(rule, i, (int64_t)e->v[1].number);
	if (!base_and_offset(&e->v[1], &reg, &off))
		return false;
	if (rule->kind == UNWIND_CFA_REG && reg == rule->cfa_reg)
		return set_save(rule, i, off - rule->cfa_off);
	if (reg != WREG_RBP)
		return false;
	rule->from_rbp |= (uint8_t)(1u << i);
	return set_save(rule, i, off);
}

enum location { LOC_SAME, LOC_UNDEFINED, LOC_OPS, LOC_ERROR };

static enum location locate_register(Dwarf_Frame *frame, int reg, Dwarf_Op mem[3], struct ops *ret)
{
	if (dwarf_frame_register(frame, reg, mem, &ret->v, &ret->n) != 0)
		return LOC_ERROR;
	if (ret->n)
		return LOC_OPS;
	return ret->v == mem ? LOC_UNDEFINED : LOC_SAME;
}

/* The caller's rsp is the CFA: everywhere but in code that switches stacks. */
static bool rsp_is_cfa(Dwarf_Frame *frame)
{
	Dwarf_Op mem[3];
	struct ops e;

	return locate_register(frame, WREG_RSP, mem, &e) == LOC_OPS && e.n == 2 &&
	       e.v[0].atom == DW_OP_call_frame_cfa && e.v[1].atom == DW_OP_stack_value;
}

static bool convert_saves(Dwarf_Frame *frame, struct unwind_rule *rule)
{
	static const uint8_t reg[UNWIND_SAVES] = { WREG_RBX, WREG_RBP, WREG_R12, WREG_R13,
						   WREG_R14, WREG_R15, WREG_RIP };
	Dwarf_Op mem[3];
	struct ops e;

	for (unsigned int i = 0; i < UNWIND_SAVES; i++) {
		enum location loc = locate_register(frame, reg[i], mem, &e);

		/*
		 * libdw knows the psABI's defaults, but calls rbx undefined where a table is silent about it;
		 * a table that says so itself leaves nothing to restore either.
		 */
		if (i != UNWIND_SAVE_RA && (loc == LOC_SAME || loc == LOC_UNDEFINED))
			rule->save[i] = UNWIND_SAME;
		else if (loc != LOC_OPS || !convert_save(&e, rule, i))
			return false;
	}
	return true;
}

/*
 * 'S' frames of libc's restorers describe, register by register, the kernel's ucontext at rsp. That the
 * return address is where that has rip tells them from signal frames of another make.
 */
static bool is_kernel_sigframe(Dwarf_Frame *frame)
{
	unsigned int reg;
	Dwarf_Op mem[3];
	struct ops e;
	int64_t off;

	return locate_register(frame, WREG_RIP, mem, &e) == LOC_OPS && e.n == 2 &&
	       base_and_offset(&e.v[1], &reg, &off) && reg == WREG_RSP && off == UCONTEXT_GREGS + 8 * 16;
}

void libdw_rule(Dwarf_Frame *frame, struct unwind_rule *ret)
{
	struct unwind_rule rule = { .kind = UNWIND_NO_RULE };
	Dwarf_Op mem[3];
	struct ops e;
	bool is_signal;

	*ret = rule;
	if (dwarf_frame_info(frame, NULL, NULL, &is_signal) != WREG_RIP)
		return;
	if (is_signal) {
		if (is_kernel_sigframe(frame))
			ret->kind = UNWIND_SIGFRAME;
		return;
	}
	if (locate_register(frame, WREG_RIP, mem, &e) == LOC_UNDEFINED) {
		ret->kind = UNWIND_OUTERMOST;
		return;
	}
	if (dwarf_frame_cfa(frame, &e.v, &e.n) != 0 || !convert_cfa(&e, &rule) || !rsp_is_cfa(frame) ||
	    !convert_saves(frame, &rule))
		return;
	*ret = rule;
}
