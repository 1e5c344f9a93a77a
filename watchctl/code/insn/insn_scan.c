#include "watchctl/code/insn/insn_scan.h"

#include <string.h>

#include <Zydis/Zydis.h>

#include "watchctl/code/insn/insn.h"

static uint8_t flow_of(const ZydisDecodedInstruction *i)
{
	switch (i->meta.category) {
	case ZYDIS_CATEGORY_CALL:
		return INSN_CALL;
	case ZYDIS_CATEGORY_RET:
		return INSN_RET;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return INSN_JUMP;
	case ZYDIS_CATEGORY_COND_BR:
		return i->mnemonic == ZYDIS_MNEMONIC_XBEGIN ? INSN_BEGIN : INSN_COND;
	default:
		break;
	}
	switch (i->mnemonic) {
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
		return INSN_STOP;
	case ZYDIS_MNEMONIC_XBEGIN:
		return INSN_BEGIN;
	default:
		return INSN_NEXT;
	}
}

/* In 64-bit mode mod 0 with rm 5 means rip and a displacement (Intel SDM vol. 2, 2.2.1.6). */
static bool is_rip_relative(const ZydisDecodedInstruction *i)
{
	return i->attributes & ZYDIS_ATTRIB_HAS_MODRM && i->raw.modrm.mod == 0 && i->raw.modrm.rm == 5;
}

static void put_references(const ZydisDecodedInstruction *i, uint64_t addr, struct insn_brief *ret)
{
	uint64_t next = addr + i->length;

	if (is_rip_relative(i)) {
		ret->has_rip = true;
		ret->refers = next + (uint64_t)i->raw.disp.value;
	}
	if (i->raw.imm[0].size >= 32 && !i->raw.imm[0].is_relative) {
		ret->has_imm = true;
		ret->imm = i->raw.imm[0].value.u;
	}
	if (i->raw.imm[0].size && i->raw.imm[0].is_relative) {
		ret->has_target = true;
		ret->target = next + (uint64_t)i->raw.imm[0].value.s;
		ret->is_short = i->raw.imm[0].size == 8;
		ret->is_odd = i->attributes & ZYDIS_ATTRIB_HAS_OPERANDSIZE || i->raw.imm[0].size == 16;
	}
}

static bool names_nop(const ZydisDecodedInstruction *i)
{
	return i->mnemonic == ZYDIS_MNEMONIC_NOP;
}

static bool names_syscall(const ZydisDecodedInstruction *i)
{
	return i->mnemonic == ZYDIS_MNEMONIC_SYSCALL || i->mnemonic == ZYDIS_MNEMONIC_SYSENTER ||
	       (i->mnemonic == ZYDIS_MNEMONIC_INT && i->raw.imm[0].value.u == 0x80);
}

bool insn_scan(const uint8_t *code, size_t len, uint64_t addr, struct insn_brief *ret)
{
	ZydisDecoder decoder;
	ZydisDecodedInstruction i;

	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	if (!ZYAN_SUCCESS(
		    ZydisDecoderDecodeInstruction(&decoder, NULL, code, len < INSN_MAX ? len : INSN_MAX, &i)))
		return false;
	memset(ret, 0, sizeof(*ret));
	ret->name = (uint16_t)i.mnemonic;
	ret->len = i.length;
	ret->flow = flow_of(&i);
	ret->is_lea = i.mnemonic == ZYDIS_MNEMONIC_LEA;
	ret->is_nop = names_nop(&i);
	ret->is_int3 = i.mnemonic == ZYDIS_MNEMONIC_INT3;
	ret->is_endbr = i.mnemonic == ZYDIS_MNEMONIC_ENDBR64;
	ret->is_syscall = names_syscall(&i);
	ret->is_locked = i.attributes & ZYDIS_ATTRIB_HAS_LOCK;
	put_references(&i, addr, ret);
	return true;
}

size_t insn_scan_names(void)
{
	return ZYDIS_MNEMONIC_MAX_VALUE + 1;
}

const char *insn_scan_name(uint16_t name)
{
	const char *s = ZydisMnemonicGetString((ZydisMnemonic)name);

	return s ? s : "";
}
