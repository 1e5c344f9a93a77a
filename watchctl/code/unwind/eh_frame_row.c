/*
 * A CIE's instructions make the row that its FDEs begin with, an FDE's run from there, up to the row that is
 * wanted. They are read once, from the start to the end, so that their length bounds what they take.
 */
#include "watchctl/code/unwind/eh_frame_row.h"

#include "watchctl/code/unwind/eh_frame_expression.h"

enum {
	CFA_ADVANCE_LOC = 0x40, /* these three: in the two upper bits, the operand in the lower six */
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_NOP = 0x00,
	CFA_SET_LOC = 0x01,
	CFA_ADVANCE_LOC1 = 0x02,
	CFA_ADVANCE_LOC2 = 0x03,
	CFA_ADVANCE_LOC4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_MIPS_ADVANCE_LOC8 = 0x1d,
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* Real tables use 2 at most. */
#define REMEMBERED 8

struct machine {
	const struct cie *cie;
	struct cursor code;
	uint64_t loc, pc;
	bool in_cie, through;	     /* through: the next row lies beyond pc */
	bool odd;		     /* it is entangled, whatever the next two say */
	uint32_t described, keepers; /* by number: registers that have had a rule, and that keep another */
	unsigned int depth;
	struct row row, initial, remembered[REMEMBERED];
};

/* REGISTERS: not one that is kept. */
static unsigned int slot_of(uint64_t reg)
{
	static const uint8_t slot[WREG_COUNT] = {
		REGISTERS,	 REGISTERS,	  REGISTERS,	   UNWIND_SAVE_RBX, REGISTERS,	    REGISTERS,
		UNWIND_SAVE_RBP, SAVED_RSP,	  REGISTERS,	   REGISTERS,	    REGISTERS,	    REGISTERS,
		UNWIND_SAVE_R12, UNWIND_SAVE_R13, UNWIND_SAVE_R14, UNWIND_SAVE_R15, UNWIND_SAVE_RA,
	};

	return reg <= WREG_RIP ? slot[reg] : (unsigned int)REGISTERS;
}

static void set_register(struct machine *m, uint64_t reg, enum how how, int64_t value)
{
	unsigned int i = slot_of(reg);

	if (reg <= WREG_RIP)
		m->described |= 1u << reg;
	if (i == REGISTERS)
		return;
	m->row.how[i] = value == (int32_t)value ? how : HOW_OTHER;
	m->row.value[i] = (int32_t)value;
}

static int64_t factored(const struct machine *m, uint64_t value)
{
	return (int64_t)(value * (uint64_t)m->cie->data_align);
}

/* Where the block that begins at the cursor stands, from the start of the section on, and past it. */
static int64_t get_block(struct machine *m)
{
	struct cursor *c = &m->code, block;
	uint64_t at = c->at - c->range->start, size = get_uleb(c);

	block = *c;
	skip(c, size);
	block.end = c->at;
	if (!c->bad && !eh_expression_is_plain(block))
		m->odd = true;
	return (int64_t)at;
}

/* Another register has the value of @reg. */
static void kept_in(struct machine *m, uint64_t reg, uint64_t keeper)
{
	if (keeper <= WREG_RIP)
		m->keepers |= 1u << keeper;
	else
		m->odd = true;
	set_register(m, reg, HOW_OTHER, 0);
}

static void restore_register(struct machine *m, uint64_t reg)
{
	unsigned int i = slot_of(reg);

	if (m->in_cie)
		m->code.bad = true;
	if (i == REGISTERS)
		return;
	m->row.how[i] = m->initial.how[i];
	m->row.value[i] = m->initial.value[i];
}

static void remember_state(struct machine *m)
{
	if (m->depth == REMEMBERED)
		m->code.bad = true;
	else
		m->remembered[m->depth++] = m->row;
}

static void restore_state(struct machine *m)
{
	if (!m->depth)
		m->code.bad = true;
	else
		m->row = m->remembered[--m->depth];
}

/* The row that was being made ends at @loc. */
static void move_to(struct machine *m, uint64_t loc)
{
	if (m->in_cie || loc < m->loc)
		m->code.bad = true;
	m->loc = loc;
	m->through = loc > m->pc;
}

static void advance(struct machine *m, uint64_t delta)
{
	uint64_t bytes;

	if (__builtin_mul_overflow(delta, m->cie->code_align, &bytes))
		m->code.bad = true;
	else
		move_to(m, m->loc + bytes);
}

static void define_cfa(struct machine *m, uint64_t reg, int64_t offset)
{
	m->row.cfa_by_expression = false;
	m->row.cfa_reg = reg <= WREG_R15 ? (uint8_t)reg : WREG_COUNT;
	m->row.cfa = offset;
}

static void define_cfa_offset(struct machine *m, int64_t offset)
{
	if (m->row.cfa_by_expression)
		m->code.bad = true;
	m->row.cfa = offset;
}

static void run_extended(struct machine *m, uint8_t op)
{
	struct cursor *c = &m->code;
	uint64_t reg;

	switch (op) {
	case CFA_NOP:
		break;
	case CFA_SET_LOC:
		m->odd = true;
		move_to(m, eh_get_encoded(c, m->cie->encoding, 0));
		break;
	case CFA_ADVANCE_LOC1:
		advance(m, get_fixed(c, 1));
		break;
	case CFA_ADVANCE_LOC2:
		advance(m, get_fixed(c, 2));
		break;
	case CFA_ADVANCE_LOC4:
		advance(m, get_fixed(c, 4));
		break;
	case CFA_MIPS_ADVANCE_LOC8:
		advance(m, get_fixed(c, 8));
		break;
	case CFA_OFFSET_EXTENDED:
		reg = get_uleb(c);
		set_register(m, reg, HOW_OFFSET, factored(m, get_uleb(c)));
		break;
	case CFA_OFFSET_EXTENDED_SF:
		reg = get_uleb(c);
		set_register(m, reg, HOW_OFFSET, factored(m, (uint64_t)get_sleb(c)));
		break;
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		reg = get_uleb(c);
		set_register(m, reg, HOW_OFFSET, factored(m, 0 - get_uleb(c)));
		break;
	case CFA_VAL_OFFSET:
		m->odd = true;
		reg = get_uleb(c);
		set_register(m, reg, HOW_VAL_OFFSET, factored(m, get_uleb(c)));
		break;
	case CFA_VAL_OFFSET_SF:
		m->odd = true;
		reg = get_uleb(c);
		set_register(m, reg, HOW_VAL_OFFSET, factored(m, (uint64_t)get_sleb(c)));
		break;
	case CFA_EXPRESSION:
		reg = get_uleb(c);
		set_register(m, reg, HOW_EXPRESSION, get_block(m));
		break;
	case CFA_VAL_EXPRESSION:
		reg = get_uleb(c);
		get_block(m);
		set_register(m, reg, HOW_OTHER, 0);
		break;
	case CFA_REGISTER:
		reg = get_uleb(c);
		kept_in(m, reg, get_uleb(c));
		break;
	case CFA_RESTORE_EXTENDED:
		restore_register(m, get_uleb(c));
		break;
	case CFA_UNDEFINED:
		set_register(m, get_uleb(c), HOW_UNDEFINED, 0);
		break;
	case CFA_SAME_VALUE:
		set_register(m, get_uleb(c), HOW_SAME, 0);
		break;
	case CFA_REMEMBER_STATE:
		remember_state(m);
		break;
	case CFA_RESTORE_STATE:
		restore_state(m);
		break;
	case CFA_DEF_CFA:
		reg = get_uleb(c);
		define_cfa(m, reg, (int64_t)get_uleb(c));
		break;
	case CFA_DEF_CFA_SF:
		reg = get_uleb(c);
		define_cfa(m, reg, factored(m, (uint64_t)get_sleb(c)));
		break;
	case CFA_DEF_CFA_REGISTER:
		if (m->row.cfa_by_expression)
			c->bad = true;
		define_cfa(m, get_uleb(c), m->row.cfa);
		break;
	case CFA_DEF_CFA_OFFSET:
		define_cfa_offset(m, (int64_t)get_uleb(c));
		break;
	case CFA_DEF_CFA_OFFSET_SF:
		define_cfa_offset(m, factored(m, (uint64_t)get_sleb(c)));
		break;
	case CFA_DEF_CFA_EXPRESSION:
		m->row.cfa_by_expression = true;
		m->row.cfa = get_block(m);
		break;
	case CFA_GNU_ARGS_SIZE: /* what the caller will pop: of use to who lands in it, not to who walks */
		get_uleb(c);
		break;
	default:
		c->bad = true;
	}
}

/* Runs @code to its end or to the row's. False: it is not to be understood. */
static bool eh_frame_row_run(struct machine *m, struct cursor code)
{
	m->code = code;
	while (!m->code.bad && !m->through && m->code.at < m->code.end) {
		uint8_t op = (uint8_t)get_fixed(&m->code, 1), low = op & 0x3f;

		switch (op & 0xc0) {
		case CFA_ADVANCE_LOC:
			advance(m, low);
			break;
		case CFA_OFFSET:
			set_register(m, low, HOW_OFFSET, factored(m, get_uleb(&m->code)));
			break;
		case CFA_RESTORE:
			restore_register(m, low);
			break;
		default:
			run_extended(m, op);
		}
	}
	return !m->code.bad;
}

bool eh_row(const struct fde *fde, uint64_t pc, struct row *ret)
{
	struct machine m = { .cie = &fde->cie, .pc = pc, .in_cie = true, .row = { .cfa_reg = WREG_COUNT } };

	if (!eh_frame_row_run(&m, fde->cie.program))
		return false;
	m.in_cie = false;
	m.initial = m.row;
	m.loc = fde->start;
	if (!eh_frame_row_run(&m, fde->program))
		return false;
	*ret = m.row;
	ret->entangled = m.odd || m.described & m.keepers;
	return true;
}
