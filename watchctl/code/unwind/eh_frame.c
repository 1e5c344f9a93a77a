/*
 * From a row to a rule. Compilers and assembly authors use a handful of shapes of expressions: for the CFA, and for the place
 * where a register was saved, which starts with the CFA on its stack:
 *
 *	CFA	bregR n				almost all code, where no table row says it without one
 *		bregR n, deref			gcc's realigned stacks (rbp - 8), OpenSSL
 *		bregR n, deref, plus_uconst m
 *		bregR n, bregI 0, lit8, mul, plus, deref, plus_uconst m	OpenSSL's Montgomery code
 *		breg7 8, breg16 0, lit15, and, litN, ge, lit3, shl, plus	the linker's PLT
 *	saved	plus_uconst n
 *		breg6 n				gcc's realigned stacks
 *		breg7 n				assembly; expressed from the CFA when that is rsp + m
 */
#include "watchctl/code/unwind/eh_frame_row.h"

enum {
	OP_DEREF = 0x06,
	OP_AND = 0x1a,
	OP_MUL = 0x1e,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST = 0x23,
	OP_SHL = 0x24,
	OP_GE = 0x2a,
	OP_LIT0 = 0x30,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_BREGX = 0x92,
};

/* A DWARF expression while it is read: the block's operations. */
static struct cursor expression_at(const struct eh_range *frames, int64_t at)
{
	struct cursor c = cursor_at(frames, frames->start + (uint64_t)at);
	uint64_t size = get_uleb(&c);

	if (c.bad || size > c.end - c.at)
		c.bad = true;
	else
		c.end = c.at + size;
	return c;
}

static bool at_end(const struct cursor *c)
{
	return c->at == c->end;
}

/* DW_OP_breg0..31 and DW_OP_bregx alike: the register and what is added to it. */
static bool get_base(struct cursor *c, uint64_t *reg, int64_t *offset)
{
	uint64_t op = get_fixed(c, 1);

	if (op >= OP_BREG0 && op <= OP_BREG31)
		*reg = op - OP_BREG0;
	else if (op == OP_BREGX)
		*reg = get_uleb(c);
	else
		return false;
	*offset = get_sleb(c);
	return !c->bad;
}

/*
 * The linker's PLT: rsp + 8 + ((rip & 15) >= N) * 8, as breg7 8, breg16 0, lit15, and, litN, ge, lit3, shl,
 * plus. Returns N; 0: it is not that.
 */
static unsigned int plt_threshold(struct cursor c)
{
	uint64_t rsp, rip, n;
	int64_t eight, zero;

	if (!get_base(&c, &rsp, &eight) || rsp != WREG_RSP || eight != 8 || !get_base(&c, &rip, &zero) ||
	    rip != WREG_RIP || zero != 0 || get_fixed(&c, 2) != (OP_LIT0 + 15u) + (OP_AND << 8u))
		return 0;
	n = get_fixed(&c, 1) - OP_LIT0;
	if (get_fixed(&c, 4) != OP_GE + (OP_LIT0 + 3u) * 0x100 + OP_SHL * 0x10000 + OP_PLUS * 0x1000000)
		return 0;
	return at_end(&c) && n <= 15 ? (unsigned int)n : 0;
}

/* "bregI 0, lit8, mul, plus": taken from @c if it stands there. */
static void get_index(struct cursor *c, struct unwind_rule *rule)
{
	struct cursor index = *c;
	int64_t offset;
	uint64_t reg;

	if (get_base(&index, &reg, &offset) && reg <= WREG_R15 && !offset &&
	    get_fixed(&index, 1) == OP_LIT0 + 8u && get_fixed(&index, 2) == OP_MUL + OP_PLUS * 0x100 &&
	    !index.bad) {
		rule->cfa_index = (uint8_t)(reg + 1);
		*c = index;
	}
}

/* bregR n; bregR n [, index], deref; bregR n [, index], deref, plus_uconst m. */
static bool cfa_from_expression(const struct eh_range *frames, int64_t at, struct unwind_rule *rule)
{
	struct cursor c = expression_at(frames, at);
	unsigned int threshold = plt_threshold(c);
	int64_t offset, offset2 = 0;
	uint64_t reg;

	if (threshold) {
		rule->kind = UNWIND_PLT;
		rule->cfa_off = 8;
		rule->cfa_off2 = (int16_t)threshold;
		return true;
	}
	if (!get_base(&c, &reg, &offset) || reg > WREG_R15 || offset != (int32_t)offset)
		return false;
	rule->kind = UNWIND_CFA_REG;
	rule->cfa_reg = (uint8_t)reg;
	rule->cfa_off = (int32_t)offset;
	if (at_end(&c))
		return true;
	get_index(&c, rule);
	if (get_fixed(&c, 1) != OP_DEREF)
		return false;
	if (!at_end(&c)) {
		if (get_fixed(&c, 1) != OP_PLUS_UCONST)
			return false;
		offset2 = (int64_t)get_uleb(&c);
	}
	rule->kind = UNWIND_CFA_DEREF;
	rule->cfa_off2 = (int16_t)offset2;
	return !c.bad && at_end(&c) && offset2 == (int16_t)offset2;
}

static bool cfa_from_row(const struct eh_range *frames, const struct row *row, struct unwind_rule *rule)
{
	if (row->cfa_by_expression)
		return cfa_from_expression(frames, row->cfa, rule);
	rule->kind = UNWIND_CFA_REG;
	rule->cfa_reg = row->cfa_reg;
	rule->cfa_off = (int32_t)row->cfa;
	return row->cfa_reg <= WREG_R15 && row->cfa == (int32_t)row->cfa;
}

static bool set_save(struct unwind_rule *rule, unsigned int i, int64_t offset)
{
	if (offset % 8 || offset / 8 <= INT16_MIN || offset / 8 > INT16_MAX)
		return false;
	rule->save[i] = (int16_t)(offset / 8);
	return true;
}

/* The CFA lies on the expression's stack: nothing, plus_uconst n, or bregR n, which leaves it there. */
static bool save_from_expression(const struct eh_range *frames, int64_t at, struct unwind_rule *rule,
				 unsigned int i)
{
	struct cursor c = expression_at(frames, at), sum = c;
	int64_t offset;
	uint64_t reg;

	if (c.bad)
		return false;
	if (at_end(&c))
		return set_save(rule, i, 0);
	if (get_fixed(&sum, 1) == OP_PLUS_UCONST) {
		offset = (int64_t)get_uleb(&sum);
		return !sum.bad && at_end(&sum) && set_save(rule, i, offset);
	}
	if (!get_base(&c, &reg, &offset) || !at_end(&c))
		return false;
	if (rule->kind == UNWIND_CFA_REG && reg == rule->cfa_reg)
		return set_save(rule, i, (int64_t)((uint64_t)offset - (uint64_t)rule->cfa_off));
	if (reg != WREG_RBP)
		return false;
	rule->from_rbp |= (uint8_t)(1u << i);
	return set_save(rule, i, offset);
}

static bool saves_from_row(const struct eh_range *frames, const struct row *row, struct unwind_rule *rule)
{
	unsigned int i;

	for (i = 0; i < UNWIND_SAVES; i++) {
		switch (row->how[i]) {
		case HOW_UNSPECIFIED:
		case HOW_UNDEFINED: /* nobody needs it any more */
		case HOW_SAME:
			if (i == UNWIND_SAVE_RA)
				return false;
			rule->save[i] = UNWIND_SAME;
			break;
		case HOW_OFFSET:
			if (!set_save(rule, i, row->value[i]))
				return false;
			break;
		case HOW_EXPRESSION:
			if (!save_from_expression(frames, row->value[i], rule, i))
				return false;
			break;
		default:
			return false;
		}
	}
	return true;
}

/* The caller's rsp is the CFA: everywhere but in code that switches stacks. */
static bool rsp_is_cfa(const struct row *row)
{
	return row->how[SAVED_RSP] == HOW_UNSPECIFIED ||
	       (row->how[SAVED_RSP] == HOW_VAL_OFFSET && row->value[SAVED_RSP] == 0);
}

/*
 * 'S' frames of libc's restorers describe, register by register, the kernel's ucontext at rsp. That the
 * return address is where that has rip distinguishes them from signal frames of another make.
 */
static bool is_kernel_sigframe(const struct eh_range *frames, const struct row *row)
{
	struct cursor c;
	uint64_t reg;
	int64_t offset;

	if (row->how[UNWIND_SAVE_RA] != HOW_EXPRESSION)
		return false;
	c = expression_at(frames, row->value[UNWIND_SAVE_RA]);
	return get_base(&c, &reg, &offset) && at_end(&c) && reg == WREG_RSP &&
	       offset == UCONTEXT_GREGS + 8 * 16;
}

/* False: the instructions are not understood. */
static bool rule_of(const struct eh_image *image, const struct fde *fde, uint64_t pc, struct unwind_rule *ret)
{
	struct unwind_rule rule = { .kind = UNWIND_NO_RULE };
	struct row row;

	if (!eh_row(fde, pc, &row))
		return false;
	if (fde->cie.ra != WREG_RIP)
		return true;
	if (fde->cie.is_signal) {
		if (is_kernel_sigframe(&image->frames, &row))
			ret->kind = UNWIND_SIGFRAME;
	} else if (row.how[UNWIND_SAVE_RA] == HOW_UNDEFINED) {
		ret->kind = UNWIND_OUTERMOST;
	} else if (cfa_from_row(&image->frames, &row, &rule) && rsp_is_cfa(&row) &&
		   saves_from_row(&image->frames, &row, &rule)) {
		*ret = rule;
	}
	return true;
}

bool eh_frame_rule(const struct eh_image *image, uint64_t pc, struct unwind_rule *ret)
{
	struct fde fde;

	*ret = (struct unwind_rule){ .kind = UNWIND_NO_RULE };
	return eh_find_fde(image, pc, &fde) && rule_of(image, &fde, pc, ret);
}

bool eh_frame_rule_at(const struct eh_image *image, uint64_t entry, uint64_t pc, struct unwind_rule *ret)
{
	struct fde fde;

	*ret = (struct unwind_rule){ .kind = UNWIND_NO_RULE };
	return eh_fde_at(image, entry, pc, &fde) && rule_of(image, &fde, pc, ret);
}
