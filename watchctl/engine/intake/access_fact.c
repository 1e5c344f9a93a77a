#include "watchctl/code/insn/insn.h"
#include "watchctl/engine/intake/access_fact.h"

/* One operand, made of flat or fs-relative sums of whole registers that are still what they were. */
static bool is_computable(const struct insn *in)
{
	const struct insn_mem *m = &in->mem[0];
	uint32_t used = 0;

	if (in->nmem != 1 || m->vsib || m->addr32 || m->round || m->bit_reg != -1 || m->base == -2 ||
	    m->index == -2 || m->seg > 1 || in->is_string || !m->size)
		return false;
	if (m->base >= 0 && m->base != WREG_RIP)
		used |= 1u << m->base;
	if (m->index >= 0)
		used |= 1u << m->index;
	return !(in->writes & used);
}

bool access_fact_make(const struct code_fact *fact, struct wire_access_fact *ret)
{
	struct insn in;
	const struct insn_mem *m = &in.mem[0];

	if (!fact->before_len ||
	    !insn_decode(fact->before, fact->before_len, fact->pc - fact->before_len, &in) ||
	    !is_computable(&in))
		return false;
	*ret = (struct wire_access_fact){
		.key = fact->pc,
		.kind = m->kind,
		.base = m->base,
		.index = m->index,
		.scale = m->scale,
		.seg = m->seg,
		.size = m->size,
		.certain = !in.cond_access,
		.disp = m->disp,
		.insn_len = fact->before_len,
	};
	if (in.value_is_imm) {
		ret->value_from = WIRE_VALUE_IMM;
		ret->imm = in.value_imm;
	} else if (in.value_reg >= 0) {
		ret->value_from = WIRE_VALUE_REG;
		ret->value_reg = (uint8_t)in.value_reg;
		ret->value_shift = in.value_shift;
	}
	return true;
}
