/*
 * What is added to what Zydis says. Its operand actions are right in every kind that was checked, but:
 *
 *  - stack operands come as [rsp] with no displacement, whichever way the stack moves;
 *  - nop and prefetch name memory that they do not access, cache flushes access less than a line;
 *  - repeated scas and cmps lack the registers they advance;
 *  - masked AVX moves, cmpxchg and xsave differ in how conditional and how large they claim to be;
 *  - xsave is said to read its whole area, of which it reads one word;
 *  - enter with a nesting level copies frame pointers, and bt with a register reaches beyond its operand.
 *
 * tests/truth/ executes all of it.
 *
 * Decoders are set up on the stack at each use: that costs a few stores and keeps the file free of state.
 */
#include "watchctl/code/insn/insn.h"

#include <string.h>

#include <Zydis/Zydis.h>

#define BIT(reg) (1u << (reg))

struct decoded {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
};

static bool decode_full(const uint8_t *bytes, size_t len, struct decoded *ret)
{
	ZydisDecoder decoder;

	return ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) &&
	       ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, len, &ret->insn, ret->op));
}

/* enum reg of the register that holds @r; -1: none, -2: one that is not recorded. */
static int8_t reg_of(ZydisRegister r)
{
	static const int8_t gpr[16] = { WREG_RAX, WREG_RCX, WREG_RDX, WREG_RBX, WREG_RSP, WREG_RBP,
					WREG_RSI, WREG_RDI, WREG_R8,  WREG_R9,	WREG_R10, WREG_R11,
					WREG_R12, WREG_R13, WREG_R14, WREG_R15 };
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);

	if (r == ZYDIS_REGISTER_NONE)
		return -1;
	if (r == ZYDIS_REGISTER_RIP || r == ZYDIS_REGISTER_EIP)
		return WREG_RIP;
	if (ZydisRegisterGetClass(whole) == ZYDIS_REGCLASS_GPR64)
		return gpr[ZydisRegisterGetId(whole) & 15];
	if (ZydisRegisterGetClass(r) == ZYDIS_REGCLASS_FLAGS)
		return WREG_RFLAGS;
	return -2;
}

/* Addresses are made of whole registers: xlat's al is none that insn_mem can express. */
static int8_t address_reg_of(ZydisRegister r)
{
	ZydisRegisterClass class = ZydisRegisterGetClass(r);

	if (class == ZYDIS_REGCLASS_GPR8 || class == ZYDIS_REGCLASS_GPR16)
		return -2;
	return reg_of(r);
}

/* Instructions that name memory and leave it alone, as far as a debug register can say. */
static bool names_only(const ZydisDecodedInstruction *i)
{
	switch (i->meta.category) {
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
	case ZYDIS_CATEGORY_PREFETCH:
	case ZYDIS_CATEGORY_PREFETCHWT1:
	case ZYDIS_CATEGORY_CLDEMOTE:
	case ZYDIS_CATEGORY_MPX: /* today's processors run it as nop */
		return true;
	default:
		break;
	}
	return i->mnemonic == ZYDIS_MNEMONIC_INVLPG || i->mnemonic == ZYDIS_MNEMONIC_INVLPGA;
}

/* They count as the load of one byte: measured on an AMD EPYC, where their debug-register traps are exact. */
static bool flushes_line(const ZydisDecodedInstruction *i)
{
	return i->mnemonic == ZYDIS_MNEMONIC_CLFLUSH || i->mnemonic == ZYDIS_MNEMONIC_CLFLUSHOPT ||
	       i->mnemonic == ZYDIS_MNEMONIC_CLWB;
}

static bool size_varies(const ZydisDecodedInstruction *i)
{
	return i->meta.category == ZYDIS_CATEGORY_XSAVE || i->meta.category == ZYDIS_CATEGORY_XSAVEOPT;
}

static bool is_masked(const ZydisDecodedInstruction *i)
{
	switch (i->mnemonic) {
	case ZYDIS_MNEMONIC_MASKMOVQ:
	case ZYDIS_MNEMONIC_MASKMOVDQU:
	case ZYDIS_MNEMONIC_VMASKMOVDQU:
	case ZYDIS_MNEMONIC_VMASKMOVPS:
	case ZYDIS_MNEMONIC_VMASKMOVPD:
	case ZYDIS_MNEMONIC_VPMASKMOVD:
	case ZYDIS_MNEMONIC_VPMASKMOVQ:
		return true;
	default:
		return i->avx.mask.reg != ZYDIS_REGISTER_NONE && i->avx.mask.reg != ZYDIS_REGISTER_K0;
	}
}

/*
 * They use half of their 16 bytes, and need not read the other (Intel SDM vol. 2, PUNPCKHBW ...). Of shift
 * counts the processors read what they use as well: measured on an AMD EPYC.
 */
static bool may_read_half(const ZydisDecodedInstruction *i)
{
	switch (i->mnemonic) {
#define HALVES(name)                \
	case ZYDIS_MNEMONIC_##name: \
	case ZYDIS_MNEMONIC_V##name
		HALVES(PUNPCKLBW)
		    : HALVES(PUNPCKLWD)
		    : HALVES(PUNPCKLDQ)
		    : HALVES(PUNPCKLQDQ)
		    : HALVES(PUNPCKHBW)
		    : HALVES(PUNPCKHWD)
		    : HALVES(PUNPCKHDQ)
		    : HALVES(PUNPCKHQDQ)
		    : HALVES(UNPCKLPS)
		    : HALVES(UNPCKLPD)
		    : HALVES(UNPCKHPS)
		    : HALVES(UNPCKHPD)
		    : HALVES(PSLLW)
		    : HALVES(PSLLD)
		    : HALVES(PSLLQ)
		    : HALVES(PSRLW)
		    : HALVES(PSRLD)
		    : HALVES(PSRLQ)
		    : HALVES(PSRAW)
		    : HALVES(PSRAD)
		    :
#undef HALVES
		      case ZYDIS_MNEMONIC_VPSRAQ : return true;
	default:
		return false;
	}
}

/* Of a popped selector all processors read two bytes, and only some the rest of its slot: pop fs, pop gs, retf, iret. */
static bool pops_selector(const ZydisDecodedInstruction *i)
{
	if (i->opcode_map == ZYDIS_OPCODE_MAP_0F)
		return i->opcode == 0xa1 || i->opcode == 0xa9;
	return i->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
	       (i->opcode == 0xca || i->opcode == 0xcb || i->opcode == 0xcf);
}

/* What touches less than it names on some processors, or in some states. */
static bool is_partial(const ZydisDecodedInstruction *i, const struct insn *in)
{
	return is_masked(i) || in->mem[0].vsib || flushes_line(i) || size_varies(i) ||
	       (in->mem[0].size > 2 && pops_selector(i)) || (in->mem[0].size == 16 && may_read_half(i)) ||
	       i->mnemonic == ZYDIS_MNEMONIC_FXSAVE || i->mnemonic == ZYDIS_MNEMONIC_FXSAVE64 ||
	       i->mnemonic == ZYDIS_MNEMONIC_FXRSTOR || i->mnemonic == ZYDIS_MNEMONIC_FXRSTOR64;
}

static uint8_t kind_of(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *op)
{
	uint8_t kind = ACCESS_UNKNOWN;

	if (op->actions & ZYDIS_OPERAND_ACTION_MASK_READ)
		kind |= ACCESS_READ;
	if (op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
		kind |= ACCESS_WRITE;
	return kind;
}

static void add_mem(struct insn *ret, const ZydisDecodedInstruction *i, const ZydisDecodedOperand *op)
{
	struct insn_mem m = {
		.kind = kind_of(i, op),
		.seg = op->mem.segment == ZYDIS_REGISTER_FS   ? 1
		       : op->mem.segment == ZYDIS_REGISTER_GS ? 2
							      : 0,
		.base = address_reg_of(op->mem.base),
		.index = address_reg_of(op->mem.index),
		.scale = op->mem.scale ? op->mem.scale : 1,
		.bit_reg = -1,
		.addr32 = i->address_width == 32,
		.vsib = op->mem.type == ZYDIS_MEMOP_TYPE_VSIB || i->meta.category == ZYDIS_CATEGORY_AMX_TILE,
		.size = size_varies(i)	  ? 0
			: flushes_line(i) ? 1
					  : op->size / 8,
		.disp = op->mem.disp.has_displacement ? op->mem.disp.value : 0,
	};

	if (op->mem.type == ZYDIS_MEMOP_TYPE_AGEN || op->mem.type == ZYDIS_MEMOP_TYPE_MIB || !m.kind)
		return;
	/* The stack pointer is always used whole. */
	if (op->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN && (m.base == WREG_RSP || m.base == WREG_RBP))
		m.addr32 = false;
	if (ret->nmem < INSN_OPS)
		ret->mem[ret->nmem++] = m;
}

/* Where the stack moves: displacements relative to rsp as the instruction finds it, and the way back. */
static void fix_stack(const struct decoded *d, struct insn *ret)
{
	const ZydisDecodedInstruction *i = &d->insn;
	struct insn_mem *m, *slot = NULL;

	for (m = ret->mem; m < ret->mem + ret->nmem; m++)
		slot = m; /* the implicit one comes last */
	if (!slot || slot->base != WREG_RSP || i->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return;
	if (i->meta.category == ZYDIS_CATEGORY_PUSH || i->meta.category == ZYDIS_CATEGORY_CALL) {
		slot->disp = -(int64_t)slot->size;
		ret->undo = INSN_UNDO_PUSH;
	} else if (i->meta.category == ZYDIS_CATEGORY_POP) {
		ret->undo = INSN_UNDO_POP;
		/* Intel SDM vol. 2, POP: rsp in the operand's address is already incremented. */
		if (ret->nmem == 2 && ret->mem[0].base == WREG_RSP)
			ret->mem[0].disp += slot->size;
		if (d->op[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    d->op[0].visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT &&
		    reg_of(d->op[0].reg.value) == WREG_RSP)
			ret->undo = INSN_UNDO_NONE;
	} else {
		return;
	}
	ret->undo_size = slot->size;
}

/* Intel SDM vol. 2, ENTER: pushes rbp, then level - 1 older frame pointers and the new one. */
static void fix_enter(const struct decoded *d, struct insn *ret)
{
	uint32_t unit = d->insn.operand_width == 16 ? 2 : 8;
	uint32_t level = d->op[1].imm.value.u & 31;
	uint32_t pushed = unit * (level ? level + 1 : 1);
	struct insn_mem *push = &ret->mem[0];

	push->disp = -(int64_t)pushed;
	push->size = pushed;
	if (level > 1)
		ret->mem[ret->nmem++] = (struct insn_mem){ .kind = ACCESS_READ,
							   .base = WREG_RBP,
							   .index = -1,
							   .scale = 1,
							   .bit_reg = -1,
							   .size = unit * (level - 1),
							   .disp = -(int64_t)unit * (level - 1) };
	ret->undo = INSN_UNDO_PUSH;
	ret->undo_size = pushed + (uint32_t)d->op[0].imm.value.u;
}

/*
 * Intel SDM vol. 1, 13.4 and 13.7: the legacy region, of which the end is unused, and the states behind
 * the header are written; of the header XSTATE_BV alone, of which those bits are kept that were not
 * asked for.
 */
static void fix_xsave(struct insn *ret)
{
	const struct insn_mem area = ret->mem[0];

	ret->nmem = 3;
	ret->mem[0].kind = ACCESS_WRITE;
	ret->mem[0].size = 416;
	ret->mem[1] = area;
	ret->mem[1].kind = ACCESS_READWRITE;
	ret->mem[1].disp += 512;
	ret->mem[1].size = 8;
	ret->mem[2] = area;
	ret->mem[2].kind = ACCESS_WRITE;
	ret->mem[2].disp += 576;
	ret->cond_access = true;
}

static void fix_string(const struct decoded *d, struct insn *ret)
{
	ZyanU64 repeated = ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE;

	ret->is_string = true;
	ret->is_rep = d->insn.attributes & repeated;
	for (unsigned int k = 0; k < ret->nmem; k++) {
		if (ret->mem[k].base >= 0)
			ret->writes |= BIT(ret->mem[k].base);
		ret->undo_size = ret->mem[k].size;
	}
	if (ret->is_rep) {
		ret->writes |= BIT(WREG_RCX);
		ret->cond_access = true;
	} else {
		ret->undo = INSN_UNDO_STRING;
	}
}

/* The cache line that holds rax. */
static void fix_clzero(const struct decoded *d, struct insn *ret)
{
	ret->nmem = 1;
	ret->mem[0] = (struct insn_mem){ .kind = ACCESS_WRITE,
					 .base = WREG_RAX,
					 .index = -1,
					 .scale = 1,
					 .bit_reg = -1,
					 .addr32 = d->insn.address_width == 32,
					 .round = 64,
					 .size = 64 };
}

static void fix_special(const struct decoded *d, struct insn *ret)
{
	if (d->insn.meta.category == ZYDIS_CATEGORY_STRINGOP ||
	    d->insn.meta.category == ZYDIS_CATEGORY_IOSTRINGOP) {
		fix_string(d, ret);
		return;
	}
	switch (d->insn.mnemonic) {
	case ZYDIS_MNEMONIC_ENTER:
		fix_enter(d, ret);
		break;
	case ZYDIS_MNEMONIC_LEAVE:
		ret->undo = INSN_UNDO_LEAVE;
		ret->undo_size = ret->mem[0].size;
		break;
	case ZYDIS_MNEMONIC_CMPXCHG:
	case ZYDIS_MNEMONIC_CMPXCHG8B:
	case ZYDIS_MNEMONIC_CMPXCHG16B:
		ret->undo = INSN_UNDO_CMPXCHG;
		break;
	case ZYDIS_MNEMONIC_XLAT:
		ret->mem[0].index = -2; /* al, which it overwrites */
		break;
	case ZYDIS_MNEMONIC_WRFSBASE:
		ret->writes |= BIT(WREG_FS_BASE);
		break;
	case ZYDIS_MNEMONIC_CLZERO:
		fix_clzero(d, ret);
		break;
	case ZYDIS_MNEMONIC_XSAVE:
	case ZYDIS_MNEMONIC_XSAVE64:
	case ZYDIS_MNEMONIC_XSAVEOPT:
	case ZYDIS_MNEMONIC_XSAVEOPT64:
		fix_xsave(ret);
		break;
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTS:
	case ZYDIS_MNEMONIC_BTR:
	case ZYDIS_MNEMONIC_BTC:
		if (ret->nmem && d->op[1].type == ZYDIS_OPERAND_TYPE_REGISTER)
			ret->mem[0].bit_reg = reg_of(d->op[1].reg.value);
		break;
	default:
		fix_stack(d, ret);
		break;
	}
}

static void set_target(const struct decoded *d, uint64_t addr, struct insn *ret)
{
	const ZydisDecodedOperand *op = &d->op[0];
	ZyanU64 target;

	if (!d->insn.operand_count || d->insn.meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return;
	if (op->type == ZYDIS_OPERAND_TYPE_IMMEDIATE && op->imm.is_relative &&
	    ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&d->insn, op, addr, &target))) {
		ret->has_target = true;
		ret->target = target;
	} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		ret->target_reg = reg_of(op->reg.value);
	} else if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		ret->target_in_mem = ret->nmem && ret->mem[0].size == 8;
	}
}

static void set_flow(const struct decoded *d, uint64_t addr, struct insn *ret)
{
	ZydisMnemonic name = d->insn.mnemonic;

	ret->is_call = d->insn.meta.category == ZYDIS_CATEGORY_CALL;
	ret->is_ret = d->insn.meta.category == ZYDIS_CATEGORY_RET;
	ret->is_cond = d->insn.meta.category == ZYDIS_CATEGORY_COND_BR;
	ret->is_jmp = ret->is_cond || d->insn.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
	ret->is_syscall = name == ZYDIS_MNEMONIC_SYSCALL || name == ZYDIS_MNEMONIC_SYSENTER ||
			  (name == ZYDIS_MNEMONIC_INT && d->op[0].imm.value.u == 0x80);
	ret->keeps_rip = name == ZYDIS_MNEMONIC_SYSCALL;
	if (ret->is_call || ret->is_jmp)
		set_target(d, addr, ret);
}

static bool is_plain_register(const ZydisDecodedOperand *op)
{
	ZydisRegisterClass class = ZydisRegisterGetClass(op->reg.value);

	return op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
	       (class == ZYDIS_REGCLASS_GPR8 || class == ZYDIS_REGCLASS_GPR16 ||
		class == ZYDIS_REGCLASS_GPR32 || class == ZYDIS_REGCLASS_GPR64);
}

static bool is_high_byte(ZydisRegister r)
{
	return r == ZYDIS_REGISTER_AH || r == ZYDIS_REGISTER_CH || r == ZYDIS_REGISTER_DH ||
	       r == ZYDIS_REGISTER_BH;
}

static void set_value(const struct decoded *d, struct insn *ret)
{
	const ZydisDecodedOperand *a = &d->op[0], *b = &d->op[1], *other;

	if (d->insn.mnemonic != ZYDIS_MNEMONIC_MOV || ret->nmem != 1 || ret->mem[0].size > 8)
		return;
	other = a->type == ZYDIS_OPERAND_TYPE_MEMORY ? b : a;
	if (is_plain_register(other)) {
		ret->value_reg = reg_of(other->reg.value);
		ret->value_shift = is_high_byte(other->reg.value) ? 8 : 0;
	} else if (other->type == ZYDIS_OPERAND_TYPE_IMMEDIATE) {
		ret->value_is_imm = true;
		ret->value_imm = other->imm.value.u;
		if (ret->mem[0].size < 8)
			ret->value_imm &= (1ull << 8 * ret->mem[0].size) - 1;
	}
}

static void set_exchange(const struct decoded *d, struct insn *ret)
{
	const ZydisDecodedOperand *reg = d->op[0].type == ZYDIS_OPERAND_TYPE_MEMORY ? &d->op[1] : &d->op[0];

	switch (d->insn.mnemonic) {
	case ZYDIS_MNEMONIC_XCHG:
	case ZYDIS_MNEMONIC_XADD:
		ret->exchange = INSN_EXCHANGE_SWAP;
		break;
	case ZYDIS_MNEMONIC_CMPXCHG:
		ret->exchange = INSN_EXCHANGE_COMPARE;
		break;
	case ZYDIS_MNEMONIC_CMPXCHG8B:
	case ZYDIS_MNEMONIC_CMPXCHG16B:
		ret->exchange = INSN_EXCHANGE_PAIR;
		return;
	default:
		return;
	}
	if (ret->nmem != 1 || !is_plain_register(reg)) {
		ret->exchange = INSN_EXCHANGE_NONE;
		return;
	}
	ret->exchange_reg = reg_of(reg->reg.value);
	ret->exchange_shift = is_high_byte(reg->reg.value) ? 8 : 0;
}

static bool decode(const uint8_t *bytes, size_t len, uint64_t addr, struct insn *ret)
{
	struct insn out = { .value_reg = -1, .target_reg = -1 };
	struct decoded d;
	uint8_t conditional = ZYDIS_OPERAND_ACTION_CONDREAD | ZYDIS_OPERAND_ACTION_CONDWRITE;

	if (!decode_full(bytes, len, &d))
		return false;
	out.len = d.insn.length;
	if (d.insn.attributes & ZYDIS_ATTRIB_HAS_MODRM && d.insn.raw.modrm.mod == 0 &&
	    d.insn.raw.modrm.rm == 5 && d.insn.raw.disp.size == 32)
		out.rip_at = d.insn.raw.disp.offset;
	for (unsigned int k = 0; k < d.insn.operand_count; k++) {
		const ZydisDecodedOperand *op = &d.op[k];

		if (op->type == ZYDIS_OPERAND_TYPE_MEMORY && !names_only(&d.insn)) {
			add_mem(&out, &d.insn, op);
			/* cmpxchg always writes, the new value or the old. */
			if (op->actions & conditional && d.insn.meta.category != ZYDIS_CATEGORY_SEMAPHORE)
				out.cond_access = true;
		} else if (op->type == ZYDIS_OPERAND_TYPE_REGISTER &&
			   op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) {
			int8_t reg = reg_of(op->reg.value);

			if (reg >= 0 && reg != WREG_RIP)
				out.writes |= BIT(reg);
		}
	}
	if (out.nmem && is_partial(&d.insn, &out))
		out.cond_access = true;
	set_flow(&d, addr, &out);
	fix_special(&d, &out);
	set_value(&d, &out);
	set_exchange(&d, &out);
	*ret = out;
	return true;
}

/*
 * The last answers, by address: the same few instructions are asked for at every access. The whole question
 * is compared, so an answer is never for other bytes; a thread has its own.
 */
struct answer {
	uint64_t addr;
	uint8_t len; /* 0: none */
	uint8_t bytes[INSN_MAX];
	bool ok;
	struct insn insn;
};

#define ANSWERS 64u

bool insn_decode(const uint8_t *bytes, size_t len, uint64_t addr, struct insn *ret)
{
	static _Thread_local struct answer answers[ANSWERS];
	struct answer *a = &answers[(addr ^ addr >> 6) % ANSWERS];

	if (len > INSN_MAX)
		len = INSN_MAX;
	if (!len)
		return false;
	if (a->len != len || a->addr != addr || memcmp(a->bytes, bytes, len) != 0) {
		a->addr = addr;
		a->len = (uint8_t)len;
		memcpy(a->bytes, bytes, len);
		a->ok = decode(bytes, len, addr, &a->insn);
	}
	if (a->ok)
		*ret = a->insn;
	return a->ok;
}

/* mov ss: the trap of its access, and any other, waits for the next instruction (Intel SDM vol. 3, 6.8.3). */
static bool holds_traps(const ZydisDecodedInstruction *i)
{
	return i->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT && i->opcode == 0x8e && i->raw.modrm.reg == 2;
}

bool insn_before(const uint8_t *code, size_t len, uint64_t start, uint64_t pc, uint64_t *ret)
{
	ZydisDecoder decoder;
	ZydisDecodedInstruction i;
	uint64_t at = start;
	bool held = false;

	if (pc <= start || pc - start > len)
		return false;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	/* Lengths are all that is wanted; the minimal mode is several times as fast. */
	ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
	for (;;) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, code + (at - start),
								len - (at - start), &i)))
			return false;
		if (at + i.length >= pc)
			break;
		at += i.length;
		held = holds_traps(&i);
	}
	if (at + i.length != pc || held)
		return false;
	*ret = at;
	return true;
}

/* How far, in bytes, the bit number in @value moves the operand: whole operands, signed. */
static int64_t bit_distance(const struct insn_mem *m, uint64_t value)
{
	int64_t bit = m->size == 2 ? (int16_t)value : m->size == 4 ? (int32_t)value : (int64_t)value;
	int64_t bits = 8 * (int64_t)m->size;

	return (bit >= 0 ? bit / bits : -((bits - 1 - bit) / bits)) * (int64_t)m->size;
}

bool insn_mem_addr(const struct insn_mem *m, const struct regs *regs, uint64_t insn_addr,
		   unsigned int insn_len, uint64_t *ret)
{
	uint64_t addr = (uint64_t)m->disp;

	if (m->vsib || m->base == -2 || m->index == -2 || m->bit_reg == -2)
		return false;
	if (m->seg == 2 || (m->seg == 1 && !regs->r[WREG_FS_BASE]))
		return false;
	if (m->base == WREG_RIP)
		addr += insn_addr + insn_len;
	else if (m->base >= 0)
		addr += regs->r[m->base];
	if (m->index >= 0)
		addr += regs->r[m->index] * m->scale;
	if (m->bit_reg >= 0)
		addr += (uint64_t)bit_distance(m, regs->r[m->bit_reg]);
	if (m->addr32)
		addr &= UINT32_MAX;
	if (m->round)
		addr &= ~(uint64_t)(m->round - 1);
	if (m->seg == 1)
		addr += regs->r[WREG_FS_BASE];
	*ret = addr;
	return true;
}

uint32_t insn_undo(const struct insn *i, const struct regs *after, struct regs *before)
{
	uint64_t back = i->undo_size;
	uint32_t known = 0;

	*before = *after;
	switch (i->undo) {
	case INSN_UNDO_PUSH:
		before->r[WREG_RSP] += back;
		known = BIT(WREG_RSP);
		break;
	case INSN_UNDO_POP:
		before->r[WREG_RSP] -= back;
		known = BIT(WREG_RSP);
		break;
	case INSN_UNDO_LEAVE:
		before->r[WREG_RBP] = after->r[WREG_RSP] - back;
		known = BIT(WREG_RBP);
		break;
	case INSN_UNDO_STRING:
		back = after->r[WREG_RFLAGS] & RFLAG_DIRECTION ? back : -back;
		known = i->writes & (BIT(WREG_RSI) | BIT(WREG_RDI));
		if (known & BIT(WREG_RSI))
			before->r[WREG_RSI] += back;
		if (known & BIT(WREG_RDI))
			before->r[WREG_RDI] += back;
		break;
	case INSN_UNDO_CMPXCHG:
		if (after->r[WREG_RFLAGS] & RFLAG_ZERO)
			known = BIT(WREG_RAX) | BIT(WREG_RDX);
		break;
	default:
		break;
	}
	return i->writes & ~known;
}

const char *insn_name(const uint8_t *bytes, size_t len)
{
	struct decoded d;

	return decode_full(bytes, len, &d) ? ZydisMnemonicGetString(d.insn.mnemonic) : NULL;
}

static bool has_vector(const struct decoded *d)
{
	for (unsigned int i = 0; i < d->insn.operand_count_visible; i++) {
		if (d->op[i].type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		switch (ZydisRegisterGetClass(d->op[i].reg.value)) {
		case ZYDIS_REGCLASS_MMX:
		case ZYDIS_REGCLASS_XMM:
		case ZYDIS_REGCLASS_YMM:
		case ZYDIS_REGCLASS_ZMM:
		case ZYDIS_REGCLASS_MASK:
			return true;
		default:
			break;
		}
	}
	return false;
}

/*
 * Zydis ends each name with the size of the memory operand; assemblers know such names only of general instructions,
 * of conversions from integers in memory (l, q), and where a vector's length is said by nothing else (x, y).
 */
static bool has_suffix(const struct decoded *d, const char *name, char suffix)
{
	static const char *const of_lengths[] = { "pd2ps", "pd2dq", "pd2udq", "qq2ps",
						  "pd2ph", "qq2ph", "ps2bf16" };

	if (strchr("lq", suffix) && strstr(name, "si2s"))
		return true;
	if (!strncmp(name, "vfpclassp", 9))
		return strchr("xyz", suffix);
	for (size_t i = 0; strchr("xy", suffix) && i < sizeof(of_lengths) / sizeof(*of_lengths); i++)
		if (strstr(name, of_lengths[i]))
			return true;
	return !strchr("xyz", suffix) && !has_vector(d) && !strstr(name, "cvt") && strcmp(name, "lsl") != 0 &&
	       strcmp(name, "cldemote") != 0 && d->insn.meta.category != ZYDIS_CATEGORY_PREFETCH &&
	       d->insn.meta.category != ZYDIS_CATEGORY_PREFETCHWT1;
}

/* Takes the letter away that stands behind the name. */
static void strip_suffix(const struct decoded *d, char *text)
{
	const char *name = ZydisMnemonicGetString(d->insn.mnemonic);
	char *found = name ? strstr(text, name) : NULL;
	size_t len = name ? strlen(name) : 0;

	if (!found || !found[len] || found[len] == ' ' || (found[len + 1] && found[len + 1] != ' '))
		return;
	if (!has_suffix(d, name, found[len]))
		memmove(found + len, found + len + 1, strlen(found + len));
}

void insn_text(enum insn_syntax syntax, const uint8_t *bytes, size_t len, uint64_t addr, char *buf,
	       size_t cap)
{
	ZydisFormatter f;
	struct decoded d;

	if (!cap)
		return;
	buf[0] = '\0';
	if (!decode_full(bytes, len, &d))
		return;
	ZydisFormatterInit(&f, syntax == INSN_ATT ? ZYDIS_FORMATTER_STYLE_ATT : ZYDIS_FORMATTER_STYLE_INTEL);
	ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_FORCE_SIZE, ZYAN_TRUE);
	ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_FORCE_RELATIVE_RIPREL, ZYAN_TRUE);
	ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_HEX_UPPERCASE, ZYAN_FALSE);
	ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE, ZYDIS_PADDING_DISABLED);
	ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_ADDR_PADDING_RELATIVE, ZYDIS_PADDING_DISABLED);
	ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_DISP_PADDING, ZYDIS_PADDING_DISABLED);
	ZydisFormatterSetProperty(&f, ZYDIS_FORMATTER_PROP_IMM_PADDING, ZYDIS_PADDING_DISABLED);
	if (!ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&f, &d.insn, d.op, d.insn.operand_count_visible,
							  buf, cap, addr, NULL)))
		buf[0] = '\0';
	if (syntax == INSN_ATT)
		strip_suffix(&d, buf);
}
