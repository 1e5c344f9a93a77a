#include "watchctl/code/dwarf/dwarf_eval.h"

#include "watchctl/code/dwarf/dwarf_unit.h"

#define STACK_MAX 32
#define STEPS_MAX 256

struct machine {
	struct dwarf_eval *e;
	const Dwarf_Op *op;
	size_t n, at;
	uint64_t stack[STACK_MAX];
	size_t depth;
};

static enum dwarf_eval_result push(struct machine *m, uint64_t value)
{
	if (m->depth == STACK_MAX)
		return EVAL_UNKNOWN;
	m->stack[m->depth++] = value;
	return EVAL_OK;
}

static enum dwarf_eval_result read_memory(struct dwarf_eval *e, uint64_t addr, uint64_t size, uint64_t *ret)
{
	*ret = 0;
	if (!size || size > sizeof(*ret))
		return EVAL_UNKNOWN;
	if (!e->mem || !memory_read(e->mem, addr, ret, size))
		return EVAL_UNREADABLE;
	if (e->nreads < DWARF_EVAL_READS)
		e->read[e->nreads++] = addr;
	return EVAL_OK;
}

static enum dwarf_eval_result dwarf_eval_load(struct machine *m, uint64_t size)
{
	if (!m->depth)
		return EVAL_UNKNOWN;
	return read_memory(m->e, m->stack[m->depth - 1], size, &m->stack[m->depth - 1]);
}

/* The operation at the byte @offset is the next one; right behind the last one is the end. */
static enum dwarf_eval_result jump(struct machine *m, uint64_t offset)
{
	for (size_t i = 0; i < m->n; i++) {
		if (m->op[i].offset == offset) {
			m->at = i;
			return EVAL_OK;
		}
	}
	if (!m->n || offset <= m->op[m->n - 1].offset)
		return EVAL_UNKNOWN;
	m->at = m->n;
	return EVAL_OK;
}

/* Behind the operation @op, which takes 3 bytes, and as far on as it says. */
static uint64_t target_of(const Dwarf_Op *op)
{
	return op->offset + 3 + (uint64_t)(int64_t)(int16_t)op->number;
}

static enum dwarf_eval_result copy_from(struct machine *m, size_t below)
{
	return below < m->depth ? push(m, m->stack[m->depth - 1 - below]) : EVAL_UNKNOWN;
}

static enum dwarf_eval_result swap(struct machine *m)
{
	uint64_t top;

	if (m->depth < 2)
		return EVAL_UNKNOWN;
	top = m->stack[m->depth - 1];
	m->stack[m->depth - 1] = m->stack[m->depth - 2];
	m->stack[m->depth - 2] = top;
	return EVAL_OK;
}

/* Two operands, of which @b was on top. */
static bool two(uint8_t atom, uint64_t a, uint64_t b, uint64_t *ret)
{
	int64_t x = (int64_t)a, y = (int64_t)b;
	unsigned int shift = b < 63 ? (unsigned int)b : 63;

	switch (atom) {
	case DW_OP_plus:
		*ret = a + b;
		return true;
	case DW_OP_minus:
		*ret = a - b;
		return true;
	case DW_OP_mul:
		*ret = a * b;
		return true;
	case DW_OP_div:
		*ret = y == 0 ? 0 : y == -1 ? -a : (uint64_t)(x / y);
		return y != 0;
	case DW_OP_mod:
		*ret = b ? a % b : 0;
		return b != 0;
	case DW_OP_and:
		*ret = a & b;
		return true;
	case DW_OP_or:
		*ret = a | b;
		return true;
	case DW_OP_xor:
		*ret = a ^ b;
		return true;
	case DW_OP_shl:
		*ret = b < 64 ? a << b : 0;
		return true;
	case DW_OP_shr:
		*ret = b < 64 ? a >> b : 0;
		return true;
	case DW_OP_shra:
		*ret = x < 0 ? ~(~a >> shift) : a >> shift;
		return true;
	case DW_OP_eq:
		*ret = a == b;
		return true;
	case DW_OP_ne:
		*ret = a != b;
		return true;
	case DW_OP_lt:
		*ret = x < y;
		return true;
	case DW_OP_le:
		*ret = x <= y;
		return true;
	case DW_OP_gt:
		*ret = x > y;
		return true;
	case DW_OP_ge:
		*ret = x >= y;
		return true;
	default:
		return false;
	}
}

static enum dwarf_eval_result combine(struct machine *m, uint8_t atom)
{
	uint64_t result;

	if (m->depth < 2 || !two(atom, m->stack[m->depth - 2], m->stack[m->depth - 1], &result))
		return EVAL_UNKNOWN;
	m->stack[--m->depth - 1] = result;
	return EVAL_OK;
}

static enum dwarf_eval_result change_top(struct machine *m, const Dwarf_Op *op)
{
	uint64_t *top = &m->stack[m->depth - 1];

	if (!m->depth)
		return EVAL_UNKNOWN;
	switch (op->atom) {
	case DW_OP_plus_uconst:
		*top += op->number;
		return EVAL_OK;
	case DW_OP_neg:
		*top = -*top;
		return EVAL_OK;
	case DW_OP_not:
		*top = ~*top;
		return EVAL_OK;
	case DW_OP_abs:
		*top = (int64_t)*top < 0 ? -*top : *top;
		return EVAL_OK;
	default:
		return combine(m, op->atom);
	}
}

static enum dwarf_eval_result run_one(struct machine *m, const Dwarf_Op *op)
{
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(m, (uint64_t)(op->atom - DW_OP_lit0));
	if (op->atom >= DW_OP_const1u && op->atom <= DW_OP_consts)
		return push(m, op->number);
	switch (op->atom) {
	case DW_OP_nop:
		return EVAL_OK;
	case DW_OP_addr:
		return push(m, op->number + m->e->bias);
	case DW_OP_push_object_address:
		return push(m, m->e->object);
	case DW_OP_deref:
		return dwarf_eval_load(m, sizeof(uint64_t));
	case DW_OP_deref_size:
		return dwarf_eval_load(m, op->number);
	case DW_OP_dup:
		return copy_from(m, 0);
	case DW_OP_over:
		return copy_from(m, 1);
	case DW_OP_pick:
		return copy_from(m, op->number);
	case DW_OP_swap:
		return swap(m);
	case DW_OP_drop:
		return m->depth ? (m->depth--, EVAL_OK) : EVAL_UNKNOWN;
	case DW_OP_skip:
		return jump(m, target_of(op));
	case DW_OP_bra:
		if (!m->depth)
			return EVAL_UNKNOWN;
		return m->stack[--m->depth] ? jump(m, target_of(op)) : EVAL_OK;
	default:
		return change_top(m, op);
	}
}

enum dwarf_eval_result dwarf_eval_ops(struct dwarf_eval *e, const Dwarf_Op *op, size_t n,
				      const uint64_t *start, uint64_t *ret)
{
	struct machine m = { .e = e, .op = op, .n = n };
	enum dwarf_eval_result r = EVAL_OK;

	if (start)
		m.stack[m.depth++] = *start;
	for (unsigned int steps = 0; m.at < n && r == EVAL_OK; steps++) {
		if (steps == STEPS_MAX)
			return EVAL_UNKNOWN;
		r = run_one(&m, &m.op[m.at++]);
	}
	if (r != EVAL_OK)
		return r;
	if (!m.depth)
		return EVAL_UNKNOWN;
	*ret = m.stack[m.depth - 1];
	return EVAL_OK;
}

/* Compilers keep a bound in a variable of their own: its value. */
static enum dwarf_eval_result variable_value(struct dwarf_eval *e, Dwarf_Die *die, int64_t *ret)
{
	Dwarf_Attribute mem, *attr = dwarf_attr_integrate(die, DW_AT_const_value, &mem);
	Dwarf_Word size = 0, encoding = DW_ATE_signed;
	uint64_t addr, value;
	enum dwarf_eval_result r;
	Dwarf_Die type;
	Dwarf_Op *op;
	size_t n;

	if (dwarf_tag(die) != DW_TAG_variable && dwarf_tag(die) != DW_TAG_constant)
		return EVAL_UNKNOWN;
	if (attr)
		return dwarf_attr_number(attr, ret) ? EVAL_OK : EVAL_UNKNOWN;
	attr = dwarf_attr_integrate(die, DW_AT_location, &mem);
	if (!attr || dwarf_attr_location(attr, &op, &n) != 0)
		return EVAL_UNKNOWN;
	r = dwarf_eval_ops(e, op, n, NULL, &addr);
	if (r != EVAL_OK)
		return r;
	if (!dwarf_formref_die(dwarf_attr_integrate(die, DW_AT_type, &mem), &type) ||
	    dwarf_peel_type(&type, &type) != 0 || !dwarf_die_number(&type, DW_AT_byte_size, &size))
		return EVAL_UNKNOWN;
	dwarf_die_number(&type, DW_AT_encoding, &encoding);
	r = read_memory(e, addr, size, &value);
	if (r != EVAL_OK)
		return r;
	*ret = encoding == DW_ATE_signed && size < 8 ? (int64_t)(value << (64 - 8 * size)) >> (64 - 8 * size)
						     : (int64_t)value;
	return EVAL_OK;
}

enum dwarf_eval_result dwarf_eval_number(struct dwarf_eval *e, Dwarf_Die *die, unsigned int attr,
					 int64_t *ret)
{
	Dwarf_Attribute mem, *a = dwarf_attr_integrate(die, attr, &mem);
	enum dwarf_eval_result r;
	Dwarf_Block block;
	uint64_t value;
	Dwarf_Die other;
	Dwarf_Op *op;
	size_t n;

	if (!a)
		return EVAL_NONE;
	if (dwarf_formblock(a, &block) == 0) {
		if (dwarf_attr_location(a, &op, &n) != 0 || !n)
			return EVAL_UNKNOWN;
		r = dwarf_eval_ops(e, op, n, NULL, &value);
		*ret = r == EVAL_OK ? (int64_t)value : *ret;
		return r;
	}
	if (dwarf_attr_number(a, ret))
		return EVAL_OK;
	return dwarf_formref_die(a, &other) ? variable_value(e, &other, ret) : EVAL_UNKNOWN;
}
