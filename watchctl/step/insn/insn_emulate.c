/*
 * What the instructions do, after the Intel SDM, vol. 2. Flags that it leaves undefined are as processors
 * leave them: the auxiliary carry of logic is clear.
 */
#include "watchctl/step/insn/insn_emulate.h"

#include <string.h>

#include "watchctl/step/insn/insn_move.h"

#define CARRY 0x1u
#define PARITY 0x4u
#define AUXILIARY 0x10u
#define ZERO 0x40u
#define SIGN 0x80u
#define TRAP 0x100u
#define OVERFLOW 0x800u
#define RESUME 0x10000u
#define VIRTUAL_8086 0x20000u
#define ALIGNMENT_CHECK 0x40000u
#define STATUS (CARRY | PARITY | AUXILIARY | ZERO | SIGN | OVERFLOW)

#define USER_END 0x800000000000u /* of addresses that every processor has */
#define RED_ZONE 256u		 /* below the stack pointer, and more than pushes need */
#define FRAMES (1u << 20)	 /* of stack above it */

enum alu { ADD, OR, ADC, SBB, AND, SUB, XOR, CMP };

struct machine {
	const struct insn_form *form;
	uint64_t next; /* address of the next instruction */
	const struct regs *in;
	struct regs out;
	const struct memory_view *memory;
	bool stores;
	uint64_t store_at, store_value;
	uint32_t store_len;
};

static uint64_t mask_of(uint32_t size)
{
	return size == 8 ? UINT64_MAX : (1ull << 8 * size) - 1;
}

static uint64_t sign_of(uint32_t size)
{
	return 1ull << (8 * size - 1);
}

static uint64_t sign_extend(uint64_t v, uint32_t size)
{
	return (v ^ sign_of(size)) - sign_of(size);
}

/* enum reg of the register that the CPU numbers @n. */
static unsigned int reg_of(uint8_t n)
{
	static const uint8_t regs[16] = { WREG_RAX, WREG_RCX, WREG_RDX, WREG_RBX, WREG_RSP, WREG_RBP,
					  WREG_RSI, WREG_RDI, WREG_R8,	WREG_R9,  WREG_R10, WREG_R11,
					  WREG_R12, WREG_R13, WREG_R14, WREG_R15 };

	return regs[n & 15];
}

/* ah ch dh bh, where there is no rex prefix. */
static bool is_high_byte(const struct insn_form *f, uint8_t n, uint32_t size)
{
	return size == 1 && !f->has_rex && n >= 4 && n < 8;
}

static uint64_t get_reg(const struct machine *m, uint8_t n, uint32_t size)
{
	if (is_high_byte(m->form, n, size))
		return m->in->r[reg_of(n - 4)] >> 8 & 0xff;
	return m->in->r[reg_of(n)] & mask_of(size);
}

static void set_reg(struct machine *m, uint8_t n, uint32_t size, uint64_t v)
{
	uint64_t *r = &m->out.r[reg_of(is_high_byte(m->form, n, size) ? n - 4 : n)];

	v &= mask_of(size);
	if (is_high_byte(m->form, n, size))
		*r = (*r & ~0xff00ull) | v << 8;
	else if (size >= 4)
		*r = v;
	else
		*r = (*r & ~mask_of(size)) | v;
}

static uint64_t effective_address(const struct machine *m)
{
	const struct insn_form *f = m->form;
	uint64_t a = (uint64_t)f->displacement;

	if (f->rip_relative)
		a += m->next;
	if (f->base >= 0)
		a += m->in->r[reg_of((uint8_t)f->base)];
	if (f->index >= 0)
		a += m->in->r[reg_of((uint8_t)f->index)] << f->scale;
	return a;
}

static bool operand_address(const struct machine *m, uint64_t *ret)
{
	if (m->form->fs && !m->in->r[WREG_FS_BASE])
		return false;
	*ret = effective_address(m) + (m->form->fs ? m->in->r[WREG_FS_BASE] : 0);
	return true;
}

/* Stack in use: what lies there, the thread alone writes, as a rule. */
static bool is_near_stack(const struct machine *m, uint64_t address)
{
	return address - (m->in->r[WREG_RSP] - RED_ZONE) < RED_ZONE + FRAMES;
}

/* Elsewhere it is read twice: another thread may be writing it, and the kernel need not copy it at once. */
static bool insn_emulate_load(const struct machine *m, uint64_t address, uint32_t size, uint64_t *ret)
{
	uint64_t v = 0, again = 0;

	if (address >= USER_END - size || m->in->r[WREG_RFLAGS] & ALIGNMENT_CHECK ||
	    !memory_read(m->memory, address, &v, size))
		return false;
	if (size > 1 && !is_near_stack(m, address) &&
	    (!memory_read(m->memory, address, &again, size) || again != v))
		return false;
	*ret = v;
	return true;
}

static bool store(struct machine *m, uint64_t address, uint32_t size, uint64_t v)
{
	if (!is_near_stack(m, address) || address >= USER_END - size ||
	    m->in->r[WREG_RFLAGS] & ALIGNMENT_CHECK)
		return false;
	m->stores = true;
	m->store_at = address;
	m->store_len = size;
	m->store_value = v;
	return true;
}

static bool get_rm(const struct machine *m, uint32_t size, uint64_t *ret)
{
	uint64_t address;

	if (!m->form->is_mem) {
		*ret = get_reg(m, m->form->rm, size);
		return true;
	}
	return operand_address(m, &address) && insn_emulate_load(m, address, size, ret);
}

static bool set_rm(struct machine *m, uint32_t size, uint64_t v)
{
	uint64_t address;

	if (!m->form->is_mem) {
		set_reg(m, m->form->rm, size, v);
		return true;
	}
	return operand_address(m, &address) && store(m, address, size, v);
}

static uint64_t result_flags(uint64_t r, uint32_t size)
{
	return ((r & mask_of(size)) ? 0 : ZERO) | ((r & sign_of(size)) ? SIGN : 0) |
	       (__builtin_parity((unsigned int)(r & 0xff)) ? 0 : PARITY);
}

static void set_flags(struct machine *m, uint64_t which, uint64_t flags)
{
	uint64_t *r = &m->out.r[WREG_RFLAGS];

	*r = (*r & ~which) | (flags & which);
}

/* Carries and borrows out of each bit, so that the top one is the flag whatever came in. */
static uint64_t alu(struct machine *m, enum alu op, uint64_t a, uint64_t b, uint32_t size)
{
	uint64_t in = op == ADC || op == SBB ? m->in->r[WREG_RFLAGS] & CARRY : 0, r, out = 0, over = 0, flags;

	switch (op) {
	case ADD:
	case ADC:
		r = a + b + in;
		out = (a & b) | ((a | b) & ~r);
		over = (a ^ r) & (b ^ r);
		break;
	case SUB:
	case SBB:
	case CMP:
		r = a - b - in;
		out = (~a & b) | ((~a | b) & r);
		over = (a ^ b) & (a ^ r);
		break;
	case AND:
		r = a & b;
		break;
	case OR:
		r = a | b;
		break;
	default:
		r = a ^ b;
	}
	flags = result_flags(r, size) | ((out & sign_of(size)) ? CARRY : 0) |
		((over & sign_of(size)) ? OVERFLOW : 0);
	if (op != AND && op != OR && op != XOR)
		flags |= (a ^ b ^ r) & AUXILIARY;
	set_flags(m, STATUS, flags);
	return r & mask_of(size);
}

static bool insn_emulate_condition(const struct machine *m, uint8_t code)
{
	uint64_t f = m->in->r[WREG_RFLAGS];
	bool less = !(f & SIGN) != !(f & OVERFLOW), yes;

	switch (code >> 1 & 7) {
	case 0:
		yes = f & OVERFLOW;
		break;
	case 1:
		yes = f & CARRY;
		break;
	case 2:
		yes = f & ZERO;
		break;
	case 3:
		yes = f & (CARRY | ZERO);
		break;
	case 4:
		yes = f & SIGN;
		break;
	case 5:
		yes = f & PARITY;
		break;
	case 6:
		yes = less;
		break;
	default:
		yes = less || f & ZERO;
	}
	return yes != (code & 1);
}

static bool go_to(struct machine *m, uint64_t target)
{
	m->out.r[WREG_RIP] = target;
	return target < USER_END;
}

static bool push(struct machine *m, uint64_t v)
{
	uint64_t sp = m->in->r[WREG_RSP] - 8;

	m->out.r[WREG_RSP] = sp;
	return store(m, sp, 8, v);
}

static bool pop(struct machine *m, uint64_t *ret)
{
	m->out.r[WREG_RSP] = m->in->r[WREG_RSP] + 8;
	return insn_emulate_load(m, m->in->r[WREG_RSP], 8, ret);
}

static bool ret_near(struct machine *m, uint64_t drop)
{
	uint64_t target;

	if (!pop(m, &target))
		return false;
	m->out.r[WREG_RSP] += drop;
	return go_to(m, target);
}

static bool insn_emulate_leave(struct machine *m)
{
	uint64_t frame = m->in->r[WREG_RBP], saved;

	if (!insn_emulate_load(m, frame, 8, &saved))
		return false;
	m->out.r[WREG_RSP] = frame + 8;
	m->out.r[WREG_RBP] = saved;
	return true;
}

/* Opcodes below 40, and a8, a9, 84, 85 as AND without a result. */
static bool arithmetic(struct machine *m)
{
	const struct insn_form *f = m->form;
	enum alu op = f->opcode >> 3 & 7;
	uint32_t size = f->opcode & 1 ? f->size : 1;
	uint64_t rm, reg, r;

	if ((f->opcode & 7) >= 4) {
		r = alu(m, op, get_reg(m, 0, size), (uint64_t)f->imm & mask_of(size), size);
		if (op != CMP)
			set_reg(m, 0, size, r);
		return true;
	}
	if (!get_rm(m, size, &rm))
		return false;
	reg = get_reg(m, f->reg, size);
	if (f->opcode & 2) {
		r = alu(m, op, reg, rm, size);
		if (op != CMP)
			set_reg(m, f->reg, size, r);
		return true;
	}
	r = alu(m, op, rm, reg, size);
	return op == CMP || set_rm(m, size, r);
}

/* 80, 81, 83 */
static bool arithmetic_imm(struct machine *m)
{
	const struct insn_form *f = m->form;
	uint32_t size = f->opcode & 1 ? f->size : 1;
	uint64_t rm, r;

	if (!get_rm(m, size, &rm))
		return false;
	r = alu(m, (enum alu)f->ext, rm, (uint64_t)f->imm & mask_of(size), size);
	return f->ext == CMP || set_rm(m, size, r);
}

static bool test(struct machine *m, uint64_t with)
{
	uint32_t size = m->form->opcode & 1 ? m->form->size : 1;
	uint64_t rm;

	if (!get_rm(m, size, &rm))
		return false;
	alu(m, AND, rm, with & mask_of(size), size);
	return true;
}

static bool group_f6(struct machine *m)
{
	uint32_t size = m->form->opcode & 1 ? m->form->size : 1;
	uint64_t rm;

	if (m->form->ext == 0)
		return test(m, (uint64_t)m->form->imm);
	if (!get_rm(m, size, &rm))
		return false;
	if (m->form->ext == 2)
		return set_rm(m, size, ~rm & mask_of(size));
	return set_rm(m, size, alu(m, SUB, 0, rm, size));
}

static bool group_ff(struct machine *m)
{
	uint32_t size = m->form->opcode & 1 ? m->form->size : 1;
	uint64_t rm, carry = m->in->r[WREG_RFLAGS] & CARRY;

	if (!get_rm(m, size, &rm))
		return false;
	switch (m->form->ext) {
	case 0:
	case 1:
		rm = alu(m, m->form->ext ? SUB : ADD, rm, 1, size);
		set_flags(m, CARRY, carry);
		return set_rm(m, size, rm);
	case 2:
		return push(m, m->next) && go_to(m, rm);
	case 4:
		return go_to(m, rm);
	default:
		return push(m, rm);
	}
}

/* 63, 0f b6 b7 be bf: @from bytes of rm into the register */
static bool extend(struct machine *m, uint32_t from, bool is_signed)
{
	uint64_t v;

	if (!get_rm(m, from, &v))
		return false;
	set_reg(m, m->form->reg, m->form->size, is_signed ? sign_extend(v, from) : v);
	return true;
}

/* 98, 99 */
static bool widen(struct machine *m)
{
	uint32_t size = m->form->size;
	uint32_t half = size == 8 ? 4 : size == 4 ? 2 : 1;
	uint64_t a = get_reg(m, 0, size);

	if (m->form->opcode == 0x98)
		set_reg(m, 0, size, sign_extend(a & mask_of(half), half));
	else
		set_reg(m, 2, size, (a & sign_of(size)) ? UINT64_MAX : 0);
	return true;
}

static bool move(struct machine *m)
{
	const struct insn_form *f = m->form;
	uint32_t size = f->opcode & 1 ? f->size : 1;
	uint64_t v;

	switch (f->opcode) {
	case 0x88:
	case 0x89:
		return set_rm(m, size, get_reg(m, f->reg, size));
	case 0x8a:
	case 0x8b:
		if (!get_rm(m, size, &v))
			return false;
		set_reg(m, f->reg, size, v);
		return true;
	default:
		return set_rm(m, size, (uint64_t)f->imm & mask_of(size));
	}
}

static bool run_two_byte(struct machine *m)
{
	const struct insn_form *f = m->form;
	uint64_t v;

	switch (f->opcode >> 4) {
	case 0x1: /* nop, endbr64 */
		return true;
	case 0x4: /* cmov reads whether it moves or not, and clears the upper half */
		if (!get_rm(m, f->size, &v))
			return false;
		set_reg(m, f->reg, f->size,
			insn_emulate_condition(m, f->opcode) ? v : get_reg(m, f->reg, f->size));
		return true;
	case 0x8:
		return go_to(m, insn_emulate_condition(m, f->opcode) ? m->next + (uint64_t)f->imm : m->next);
	case 0x9:
		return set_rm(m, 1, insn_emulate_condition(m, f->opcode));
	default:
		return extend(m, f->opcode & 1 ? 2 : 1, f->opcode & 8);
	}
}

static bool run_ranges(struct machine *m)
{
	const struct insn_form *f = m->form;
	uint64_t v;

	if (f->opcode < 0x40)
		return arithmetic(m);
	switch (f->opcode >> 3) {
	case 0x50 >> 3:
		return push(m, get_reg(m, f->rm, 8));
	case 0x58 >> 3:
		if (!pop(m, &v))
			return false;
		set_reg(m, f->rm, 8, v);
		return true;
	case 0x70 >> 3:
	case 0x78 >> 3:
		return go_to(m, insn_emulate_condition(m, f->opcode) ? m->next + (uint64_t)f->imm : m->next);
	case 0xb0 >> 3:
		set_reg(m, f->rm, 1, (uint64_t)f->imm);
		return true;
	case 0xb8 >> 3:
		set_reg(m, f->rm, f->size, (uint64_t)f->imm);
		return true;
	default:
		return false;
	}
}

static bool run_one_byte(struct machine *m)
{
	const struct insn_form *f = m->form;

	switch (f->opcode) {
	case 0x63:
		return extend(m, f->size < 4 ? f->size : 4, true);
	case 0x68:
	case 0x6a:
		return push(m, (uint64_t)f->imm);
	case 0x80:
	case 0x81:
	case 0x83:
		return arithmetic_imm(m);
	case 0x84:
	case 0x85:
		return test(m, get_reg(m, f->reg, f->opcode & 1 ? f->size : 1));
	case 0x88:
	case 0x89:
	case 0x8a:
	case 0x8b:
	case 0xc6:
	case 0xc7:
		return move(m);
	case 0x8d:
		set_reg(m, f->reg, f->size, effective_address(m));
		return true;
	case 0x90:
		return true;
	case 0x98:
	case 0x99:
		return widen(m);
	case 0x9c:
		return push(m, m->in->r[WREG_RFLAGS] & ~(uint64_t)(RESUME | VIRTUAL_8086));
	case 0xa8:
	case 0xa9:
		alu(m, AND, get_reg(m, 0, f->opcode & 1 ? f->size : 1),
		    (uint64_t)f->imm & mask_of(f->opcode & 1 ? f->size : 1), f->opcode & 1 ? f->size : 1);
		return true;
	case 0xc2:
		return ret_near(m, (uint64_t)f->imm & 0xffff);
	case 0xc3:
		return ret_near(m, 0);
	case 0xc9:
		return insn_emulate_leave(m);
	case 0xe8:
		return push(m, m->next) && go_to(m, m->next + (uint64_t)f->imm);
	case 0xe9:
	case 0xeb:
		return go_to(m, m->next + (uint64_t)f->imm);
	case 0xf6:
	case 0xf7:
		return group_f6(m);
	case 0xfe:
	case 0xff:
		return group_ff(m);
	default:
		return run_ranges(m);
	}
}

bool insn_emulate(const struct insn_move *m, uint64_t addr, struct regs *regs, const struct memory_view *mem,
		  insn_write_fn write, void *ctx)
{
	struct machine machine = { .next = addr + m->len, .in = regs, .memory = mem };
	struct insn_form form;

	if (m->way != INSN_EMULATE || regs->r[WREG_RFLAGS] & TRAP || !insn_form_read(m->bytes, m->len, &form))
		return false;
	machine.form = &form;
	machine.out = *regs;
	machine.out.r[WREG_RIP] = machine.next;
	machine.out.r[WREG_RFLAGS] &= ~(uint64_t)RESUME;
	if (!(form.two_byte ? run_two_byte(&machine) : run_one_byte(&machine)))
		return false;
	if (machine.stores && !write(ctx, machine.store_at, &machine.store_value, machine.store_len))
		return false;
	*regs = machine.out;
	return true;
}
