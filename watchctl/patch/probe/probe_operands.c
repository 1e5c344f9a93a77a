#include "watchctl/patch/probe/probe_operands.h"

#include <stdbool.h>
#include <string.h>

#include "watchctl/code/insn/insn.h"
#include "watchctl/code/insn/insn_view.h"
#include "watchctl/code/regs.h"

struct name {
	const char *name[5]; /* of 8, 4, 2 and 1 bytes, and of the second byte */
};

/* By enum reg. */
static const struct name names[] = {
	[WREG_RAX] = { { "rax", "eax", "ax", "al", "ah" } },
	[WREG_RDX] = { { "rdx", "edx", "dx", "dl", "dh" } },
	[WREG_RCX] = { { "rcx", "ecx", "cx", "cl", "ch" } },
	[WREG_RBX] = { { "rbx", "ebx", "bx", "bl", "bh" } },
	[WREG_RSI] = { { "rsi", "esi", "si", "sil" } },
	[WREG_RDI] = { { "rdi", "edi", "di", "dil" } },
	[WREG_RBP] = { { "rbp", "ebp", "bp", "bpl" } },
	[WREG_RSP] = { { "rsp", "esp", "sp", "spl" } },
	[WREG_R8] = { { "r8", "r8d", "r8w", "r8b" } },
	[WREG_R9] = { { "r9", "r9d", "r9w", "r9b" } },
	[WREG_R10] = { { "r10", "r10d", "r10w", "r10b" } },
	[WREG_R11] = { { "r11", "r11d", "r11w", "r11b" } },
	[WREG_R12] = { { "r12", "r12d", "r12w", "r12b" } },
	[WREG_R13] = { { "r13", "r13d", "r13w", "r13b" } },
	[WREG_R14] = { { "r14", "r14d", "r14w", "r14b" } },
	[WREG_R15] = { { "r15", "r15d", "r15w", "r15b" } },
};

#define GENERAL_REGS (sizeof(names) / sizeof(*names))

static bool general_register(const char *name, struct probe_operand *ret)
{
	static const uint8_t size[5] = { 8, 4, 2, 1, 1 };

	for (unsigned int i = 0; i < GENERAL_REGS; i++)
		for (unsigned int k = 0; k < 5; k++)
			if (names[i].name[k] && !strcmp(names[i].name[k], name)) {
				ret->base = (uint8_t)i;
				ret->size = size[k];
				ret->shift = k == 4 ? 8 : 0;
				return true;
			}
	return false;
}

/* Of Zydis, which alone says which segment and which width of address. NULL: it sees none like that. */
static const struct insn_mem *same_memory(const struct insn *i, const struct insn_view_operand *o)
{
	for (unsigned int k = 0; k < i->nmem; k++) {
		const struct insn_mem *m = &i->mem[k];

		if ((m->base != -1) == (o->base != NULL) && (m->index != -1) == (o->index != NULL) &&
		    (m->disp == o->disp || m->base == WREG_RIP))
			return m;
	}
	return NULL;
}

static bool memory_operand(const struct insn *i, const struct insn_view_operand *o, uint64_t next,
			   bool is_lea, struct probe_operand *ret)
{
	static const struct insn_mem flat = { .base = -1, .index = -1 };
	const struct insn_mem *m = is_lea ? &flat : same_memory(i, o);
	struct probe_operand reg;

	if (!m || m->vsib || m->base == -2 || m->index == -2 || m->seg > 2)
		return false;
	ret->kind = PROBE_MEM;
	ret->size = is_lea ? 0 : o->size;
	ret->segment = m->seg;
	ret->addr32 = m->addr32;
	ret->disp = o->disp;
	ret->scale = o->scale;
	if (o->base && !strcmp(o->base, "rip"))
		ret->disp += (int64_t)next;
	else if (o->base && general_register(o->base, &reg) && reg.size >= 4)
		ret->base = reg.base;
	else if (o->base)
		return false;
	if (o->index && general_register(o->index, &reg) && reg.size >= 4)
		ret->index = reg.base;
	else if (o->index && strcmp(o->index, "riz") != 0)
		return false;
	return true;
}

static bool operand(const struct insn *i, const struct insn_view_operand *o, uint64_t next, bool is_lea,
		    struct probe_operand *ret)
{
	switch (o->kind) {
	case INSN_VIEW_REG:
		ret->kind = PROBE_REG;
		return o->reg && general_register(o->reg, ret);
	case INSN_VIEW_IMM:
		ret->kind = PROBE_IMM;
		ret->size = o->size;
		ret->disp = o->imm;
		return true;
	case INSN_VIEW_MEM:
		return memory_operand(i, o, next, is_lea, ret);
	}
	return false;
}

void probe_operands(const uint8_t *bytes, size_t len, uint64_t addr, struct probe_operand ret[PROBE_OPERANDS])
{
	const struct probe_operand none = { .base = PROBE_NO_REG, .index = PROBE_NO_REG };
	struct insn_view view;
	struct insn insn;

	for (unsigned int k = 0; k < PROBE_OPERANDS; k++)
		ret[k] = none;
	if (!insn_decode(bytes, len, addr, &insn) || !insn_view(bytes, len, addr, true, &view) ||
	    view.len != insn.len)
		return;
	for (unsigned int k = 0; k < PROBE_OPERANDS && k < view.noperands; k++)
		if (!operand(&insn, &view.operand[k], addr + insn.len, !strcmp(view.name, "lea"), &ret[k])) {
			ret[k] = none;
			ret[k].kind = PROBE_UNKNOWN;
		}
}
