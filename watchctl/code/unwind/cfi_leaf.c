#include "watchctl/code/unwind/cfi_leaf.h"

#include "watchctl/code/insn/insn.h"

#define BIT(reg) (1u << (reg))
#define PRESERVED                                                                                        \
	(BIT(WREG_RSP) | BIT(WREG_RBX) | BIT(WREG_RBP) | BIT(WREG_R12) | BIT(WREG_R13) | BIT(WREG_R14) | \
	 BIT(WREG_R15))

/* The instructions found so far, and those of them whose successors are still to be looked at. */
struct search {
	const uint8_t *code;
	size_t len;
	bool seen[CFI_LEAF_MAX];
	uint16_t todo[CFI_LEAF_MAX]; /* each offset is in it once at most */
	size_t ntodo;
};

/* Code outside the window is another function's: it may be jumped to, and does not come back. */
static void reach(struct search *s, uint64_t at)
{
	if (at >= s->len || s->seen[at])
		return;
	s->seen[at] = true;
	s->todo[s->ntodo++] = (uint16_t)at;
}

/* False: the instruction at @at is none that leaves the stack alone. */
static bool cfi_leaf_follow(struct search *s, size_t at)
{
	struct insn i;

	if (!insn_decode(s->code + at, s->len - at, at, &i) || i.is_call)
		return false;
	if (i.is_ret)
		return true;
	if (i.writes & PRESERVED)
		return false;
	if (i.has_target)
		reach(s, i.target);
	if (!i.is_jmp || i.is_cond)
		reach(s, at + i.len);
	return true;
}

bool cfi_leaf_rule(const uint8_t *code, size_t len, size_t offset, struct unwind_rule *ret)
{
	struct search s = { .code = code, .len = len < CFI_LEAF_MAX ? len : CFI_LEAF_MAX };
	struct unwind_rule rule = { .kind = UNWIND_CFA_REG, .cfa_reg = WREG_RSP, .cfa_off = 8 };

	if (offset >= s.len)
		return false;
	reach(&s, 0);
	while (s.ntodo)
		if (!cfi_leaf_follow(&s, s.todo[--s.ntodo]))
			return false;
	if (!s.seen[offset])
		return false;
	for (unsigned int k = 0; k < UNWIND_SAVE_RA; k++)
		rule.save[k] = UNWIND_SAME;
	rule.save[UNWIND_SAVE_RA] = -1;
	*ret = rule;
	return true;
}
