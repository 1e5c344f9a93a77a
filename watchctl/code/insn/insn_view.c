/*
 * Two decoders, one of which does not look at operands: it is twice as fast, and most questions are about names. Both
 * are opened once. What capstone 4 gets wrong about operands is listed in disasm.c; callers compare the length.
 */
#include "watchctl/code/insn/insn_view.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <capstone/capstone.h>

#include "watchctl/code/insn/insn.h"

static struct {
	pthread_once_t once;
	pthread_mutex_t lock; /* a decoder serves one at a time */
	csh decoder[2];	      /* by whether it looks at operands; 0: could not be opened */
	cs_insn *insn[2];
} views = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

static void open_views(void)
{
	for (int i = 0; i < 2; i++) {
		if (cs_open(CS_ARCH_X86, CS_MODE_64, &views.decoder[i]) != CS_ERR_OK) {
			views.decoder[i] = 0;
			continue;
		}
		cs_option(views.decoder[i], CS_OPT_DETAIL, i ? CS_OPT_ON : CS_OPT_OFF);
		views.insn[i] = cs_malloc(views.decoder[i]);
	}
}

/* All but the last word of capstone's mnemonic are prefixes. */
static void put_name(const char *mnemonic, struct insn_view *ret)
{
	const char *last = strrchr(mnemonic, ' ');

	snprintf(ret->name, sizeof(ret->name), "%s", last ? last + 1 : mnemonic);
	snprintf(ret->prefixes, sizeof(ret->prefixes), "%.*s", last ? (int)(last - mnemonic) : 0, mnemonic);
}

static const char *reg_name(csh decoder, unsigned int reg)
{
	return reg == X86_REG_INVALID || reg == X86_REG_RIZ || reg == X86_REG_EIZ ? NULL
										  : cs_reg_name(decoder, reg);
}

static void put_operand(csh decoder, const cs_x86_op *from, struct insn_view_operand *ret)
{
	*ret = (struct insn_view_operand){ .size = from->size };
	switch (from->type) {
	case X86_OP_REG:
		ret->kind = INSN_VIEW_REG;
		ret->reg = reg_name(decoder, from->reg);
		break;
	case X86_OP_MEM:
		ret->kind = INSN_VIEW_MEM;
		ret->base = reg_name(decoder, from->mem.base);
		ret->index = reg_name(decoder, from->mem.index);
		ret->scale = (uint8_t)from->mem.scale;
		ret->disp = from->mem.disp;
		break;
	default:
		ret->kind = INSN_VIEW_IMM;
		ret->imm = from->imm;
		break;
	}
}

static void put_operands(csh decoder, const cs_detail *detail, struct insn_view *ret)
{
	const cs_x86 *x = &detail->x86;

	ret->has_operands = true;
	ret->noperands = x->op_count < INSN_VIEW_OPERANDS ? x->op_count : INSN_VIEW_OPERANDS;
	for (uint8_t i = 0; i < ret->noperands; i++)
		put_operand(decoder, &x->operands[i], &ret->operand[i]);
}

bool insn_view(const uint8_t *bytes, size_t len, uint64_t addr, bool operands, struct insn_view *ret)
{
	size_t rest = len < INSN_MAX ? len : INSN_MAX;
	bool known;

	pthread_once(&views.once, open_views);
	pthread_mutex_lock(&views.lock);
	known = views.decoder[operands] && views.insn[operands] &&
		cs_disasm_iter(views.decoder[operands], &bytes, &rest, &addr, views.insn[operands]);
	if (known) {
		const cs_insn *i = views.insn[operands];

		ret->len = (uint8_t)i->size;
		ret->noperands = 0;
		ret->has_operands = false;
		put_name(i->mnemonic, ret);
		if (operands)
			put_operands(views.decoder[1], i->detail, ret);
	}
	pthread_mutex_unlock(&views.lock);
	return known;
}
