/* xchg, xadd and cmpxchg leave in registers the value that memory held before. */
#include "watchctl/code/insn/insn.h"

static bool is_lost(const struct insn_mem *m, uint32_t lost)
{
	return (m->base >= 0 && lost >> m->base & 1) || (m->index >= 0 && lost >> m->index & 1) ||
	       (m->seg == 1 && lost >> WREG_FS_BASE & 1);
}

/* Bytes @at (below 16) and following of the sixteen that @low and @high are. */
static uint64_t bytes_at(uint64_t low, uint64_t high, uint64_t at)
{
	if (at >= 8)
		return high >> 8 * (at - 8);
	return at ? low >> 8 * at | high << 8 * (8 - at) : low;
}

static uint64_t bytes_of(uint64_t value, uint32_t size)
{
	return size < 8 ? value & ((1ull << 8 * size) - 1) : value;
}

/* Of a pair of halves as wide as half the operand. */
static uint64_t exchanged_pair(const struct insn_mem *m, uint64_t low, uint64_t high, uint64_t at)
{
	return m->size == 8 ? bytes_at(bytes_of(low, 4) | high << 32, 0, at) : bytes_at(low, high, at);
}

bool insn_exchanged(const struct insn *i, uint64_t insn_addr, const struct regs *after, uint64_t addr,
		    uint32_t size, struct insn_exchanged *ret)
{
	const struct insn_mem *m = &i->mem[0];
	const uint64_t *r = after->r;
	bool stored = r[WREG_RFLAGS] & RFLAG_ZERO;
	uint64_t operand, at, reg;
	struct regs before;

	if (!i->exchange || is_lost(m, insn_undo(i, after, &before)) ||
	    !insn_mem_addr(m, &before, insn_addr, i->len, &operand))
		return false;
	at = addr - operand;
	if (at >= m->size || size > m->size - at)
		return false;
	*ret = (struct insn_exchanged){ .has_new = i->exchange != INSN_EXCHANGE_SWAP };
	if (i->exchange == INSN_EXCHANGE_PAIR) {
		ret->old_value = exchanged_pair(m, r[WREG_RAX], r[WREG_RDX], at);
		ret->new_value = exchanged_pair(m, r[WREG_RBX], r[WREG_RCX], at);
	} else {
		reg = r[i->exchange_reg] >> i->exchange_shift;
		ret->old_value = (i->exchange == INSN_EXCHANGE_SWAP ? reg : r[WREG_RAX]) >> 8 * at;
		ret->new_value = reg >> 8 * at;
	}
	if (!stored)
		ret->new_value = ret->old_value;
	ret->old_value = bytes_of(ret->old_value, size);
	ret->new_value = bytes_of(ret->new_value, size);
	return true;
}
