#include "watchctl/code/insn/insn_regs.h"

#include <Zydis/Zydis.h>

#include "watchctl/code/regs.h"

static int gpr_of(ZydisRegister r)
{
	static const int8_t gpr[16] = { WREG_RAX, WREG_RCX, WREG_RDX, WREG_RBX, WREG_RSP, WREG_RBP,
					WREG_RSI, WREG_RDI, WREG_R8,  WREG_R9,	WREG_R10, WREG_R11,
					WREG_R12, WREG_R13, WREG_R14, WREG_R15 };
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, r);

	return r != ZYDIS_REGISTER_NONE && ZydisRegisterGetClass(whole) == ZYDIS_REGCLASS_GPR64
		       ? gpr[ZydisRegisterGetId(whole) & 15]
		       : -1;
}

/* Bit i for byte i. */
static uint8_t bytes_of(ZydisRegister r)
{
	switch (ZydisRegisterGetClass(r)) {
	case ZYDIS_REGCLASS_GPR8:
		return r == ZYDIS_REGISTER_AH ? 0x02 : 0x01;
	case ZYDIS_REGCLASS_GPR16:
		return 0x03;
	case ZYDIS_REGCLASS_GPR32:
		return 0x0f;
	default:
		return 0xff;
	}
}

static int vector_of(ZydisRegister r)
{
	ZydisRegisterClass class = ZydisRegisterGetClass(r);

	return class == ZYDIS_REGCLASS_XMM || class == ZYDIS_REGCLASS_YMM || class == ZYDIS_REGCLASS_ZMM
		       ? ZydisRegisterGetId(r)
		       : -1;
}

static void read_register(struct insn_regs *ret, ZydisRegister r, bool narrow)
{
	int gpr = gpr_of(r), vector = vector_of(r);

	if (gpr >= 0)
		ret->reads |= 1u << gpr;
	if (gpr == WREG_RAX)
		ret->rax_reads |= bytes_of(r);
	if (gpr >= 0 && !narrow && ZydisRegisterGetClass(r) == ZYDIS_REGCLASS_GPR64)
		ret->wide_reads |= 1u << gpr;
	if (vector >= 0)
		ret->vector_reads |= 1u << vector;
}

/* or with all bits set, and with none. */
static bool is_filling(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *op)
{
	if (i->operand_count_visible != 2 || op[1].type != ZYDIS_OPERAND_TYPE_IMMEDIATE)
		return false;
	return (i->mnemonic == ZYDIS_MNEMONIC_OR && op[1].imm.value.s == -1) ||
	       (i->mnemonic == ZYDIS_MNEMONIC_AND && op[1].imm.value.s == 0);
}

/* The value comes out the same whatever the register held. */
static bool is_independent(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *op)
{
	const ZydisDecodedOperand *a = &op[i->operand_count_visible - 1], *b = a - 1;

	if (is_filling(i, op))
		return true;
	if (i->operand_count_visible < 2 || a->type != ZYDIS_OPERAND_TYPE_REGISTER ||
	    b->type != ZYDIS_OPERAND_TYPE_REGISTER || a->reg.value != b->reg.value)
		return false;
	switch (i->mnemonic) {
	case ZYDIS_MNEMONIC_XOR:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_SBB: /* of the carry flag alone */
	case ZYDIS_MNEMONIC_PXOR:
	case ZYDIS_MNEMONIC_XORPS:
	case ZYDIS_MNEMONIC_XORPD:
	case ZYDIS_MNEMONIC_VPXOR:
	case ZYDIS_MNEMONIC_VPXORD:
	case ZYDIS_MNEMONIC_VPXORQ:
	case ZYDIS_MNEMONIC_VXORPS:
	case ZYDIS_MNEMONIC_VXORPD:
	case ZYDIS_MNEMONIC_PCMPEQB:
	case ZYDIS_MNEMONIC_PCMPEQW:
	case ZYDIS_MNEMONIC_PCMPEQD:
	case ZYDIS_MNEMONIC_VPCMPEQB:
	case ZYDIS_MNEMONIC_VPCMPEQW:
	case ZYDIS_MNEMONIC_VPCMPEQD:
		return true;
	default:
		return false;
	}
}

/* A scalar result goes to the low part of the first operand, whose other part is merely kept. */
static bool is_merging(ZydisMnemonic m)
{
	switch (m) {
	case ZYDIS_MNEMONIC_CVTSI2SD:
	case ZYDIS_MNEMONIC_CVTSI2SS:
	case ZYDIS_MNEMONIC_CVTSD2SS:
	case ZYDIS_MNEMONIC_CVTSS2SD:
	case ZYDIS_MNEMONIC_VCVTSI2SD:
	case ZYDIS_MNEMONIC_VCVTSI2SS:
	case ZYDIS_MNEMONIC_VCVTSD2SS:
	case ZYDIS_MNEMONIC_VCVTSS2SD:
	case ZYDIS_MNEMONIC_SQRTSD:
	case ZYDIS_MNEMONIC_SQRTSS:
	case ZYDIS_MNEMONIC_ROUNDSD:
	case ZYDIS_MNEMONIC_ROUNDSS:
	case ZYDIS_MNEMONIC_RCPSS:
	case ZYDIS_MNEMONIC_RSQRTSS:
	case ZYDIS_MNEMONIC_MOVSD:
	case ZYDIS_MNEMONIC_MOVSS:
	case ZYDIS_MNEMONIC_MOVLPS:
	case ZYDIS_MNEMONIC_MOVLPD:
	case ZYDIS_MNEMONIC_MOVHPS:
	case ZYDIS_MNEMONIC_MOVHPD:
	case ZYDIS_MNEMONIC_PINSRB:
	case ZYDIS_MNEMONIC_PINSRW:
	case ZYDIS_MNEMONIC_PINSRD:
	case ZYDIS_MNEMONIC_PINSRQ:
		return true;
	default:
		return false;
	}
}

static bool is_nop(const ZydisDecodedInstruction *i)
{
	return i->meta.category == ZYDIS_CATEGORY_NOP || i->meta.category == ZYDIS_CATEGORY_WIDENOP;
}

/* The register at whose address @i stores another one; NONE: it does something else. */
static ZydisRegister save_base(const ZydisDecodedInstruction *i, const ZydisDecodedOperand *op)
{
	bool saves = i->meta.category == ZYDIS_CATEGORY_DATAXFER && i->operand_count_visible == 2 &&
		     op[0].type == ZYDIS_OPERAND_TYPE_MEMORY && op[1].type == ZYDIS_OPERAND_TYPE_REGISTER;

	return saves ? op[0].mem.base : ZYDIS_REGISTER_NONE;
}

static void write_register(struct insn_regs *ret, ZydisRegister r)
{
	int gpr = gpr_of(r), vector = vector_of(r);

	if (gpr >= 0)
		ret->writes |= 1u << gpr;
	if (gpr == WREG_RAX)
		ret->rax_writes |= ZydisRegisterGetClass(r) == ZYDIS_REGCLASS_GPR32 ? 0xff : bytes_of(r);
	if (vector >= 0)
		ret->vector_writes |= 1u << vector;
}

/* The instruction names it: it is not merely where such instructions leave something (div). */
static void name_register(struct insn_regs *ret, ZydisRegister r)
{
	int gpr = gpr_of(r), vector = vector_of(r);

	if (gpr >= 0)
		ret->named_writes |= 1u << gpr;
	if (vector >= 0)
		ret->named_vector_writes |= 1u << vector;
}

static void add_operand(const ZydisDecodedOperand *op, bool value_counts, bool narrow, struct insn_regs *ret)
{
	bool conditional = op->actions & ZYDIS_OPERAND_ACTION_CONDWRITE;

	if (op->type == ZYDIS_OPERAND_TYPE_MEMORY) {
		read_register(ret, op->mem.base, narrow);
		read_register(ret, op->mem.index, narrow);
		return;
	}
	if (op->type != ZYDIS_OPERAND_TYPE_REGISTER)
		return;
	if ((op->actions & ZYDIS_OPERAND_ACTION_MASK_READ) && value_counts)
		read_register(ret, op->reg.value, false);
	if (!(op->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
		return;
	if (op->visibility != ZYDIS_OPERAND_VISIBILITY_HIDDEN)
		name_register(ret, op->reg.value);
	if (!conditional)
		write_register(ret, op->reg.value);
}

/* cdqe and the like: the same value, wider. */
static bool widens_rax(ZydisMnemonic m)
{
	return m == ZYDIS_MNEMONIC_CBW || m == ZYDIS_MNEMONIC_CWDE || m == ZYDIS_MNEMONIC_CDQE;
}

static bool keeps_low_part(ZydisMnemonic m)
{
	switch (m) {
	case ZYDIS_MNEMONIC_MOVHPS:
	case ZYDIS_MNEMONIC_MOVHPD:
	case ZYDIS_MNEMONIC_PINSRB:
	case ZYDIS_MNEMONIC_PINSRW:
	case ZYDIS_MNEMONIC_PINSRD:
	case ZYDIS_MNEMONIC_PINSRQ:
		return true;
	default:
		return false;
	}
}

/* lea eax, [rdi + rsi]: an addition of which 32 bits are kept. */
static bool adds_narrow(const ZydisDecodedInstruction *i)
{
	return i->mnemonic == ZYDIS_MNEMONIC_LEA && i->operand_width <= 32;
}

bool insn_regs_find(const uint8_t *bytes, size_t len, struct insn_regs *ret)
{
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction i;
	ZydisDecoder decoder;

	*ret = (struct insn_regs){ 0 };
	if (!ZYAN_SUCCESS(ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64)) ||
	    !ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, bytes, len, &i, op)))
		return false;
	if (is_nop(&i))
		return true;
	for (unsigned int k = 0; k < i.operand_count; k++) {
		bool is_source = k || !is_merging(i.mnemonic) || op[0].type != ZYDIS_OPERAND_TYPE_REGISTER;

		add_operand(&op[k], is_source && !is_independent(&i, op), adds_narrow(&i), ret);
	}
	if (widens_rax(i.mnemonic))
		ret->named_writes |= 1u << WREG_RAX;
	if (keeps_low_part(i.mnemonic))
		ret->vector_joins = ret->vector_writes;
	ret->pushes = i.mnemonic == ZYDIS_MNEMONIC_PUSH && op[0].type == ZYDIS_OPERAND_TYPE_REGISTER;
	ret->saves_at_rsp = save_base(&i, op) == ZYDIS_REGISTER_RSP;
	ret->saves_at_rbp = save_base(&i, op) == ZYDIS_REGISTER_RBP;
	return true;
}
