#include "stackwalk/cfi_frame.h"

#include <string.h>

#include "stackwalk/insn.h"

#define BIT(reg) (1u << (reg))
#define PRESERVED (BIT(WREG_RBX) | BIT(WREG_R12) | BIT(WREG_R13) | BIT(WREG_R14) | BIT(WREG_R15))

/* What is known before an instruction. */
enum state {
	NOT_REACHED,
	AT_ENTRY, /* rsp and rbp are as the call left them */
	PUSHED,	  /* rbp has been pushed, nothing else */
	FRAMED,	  /* rbp points to where it was pushed */
	UNKNOWN,  /* something else, or not the same on all ways */
	DIRTY = 8 /* besides: other registers that belong to callers may have been written */
};

struct search {
	const uint8_t *code;
	size_t len;
	uint8_t state[CFI_FRAME_MAX];
	uint16_t todo[3 *
		      CFI_FRAME_MAX]; /* an offset is in it when it is reached, and when less becomes known */
	size_t ntodo;
};

static unsigned int merge(unsigned int a, unsigned int b)
{
	if (a == NOT_REACHED)
		return b;
	return (a & ~(unsigned int)DIRTY) == (b & ~(unsigned int)DIRTY) ? a | b : UNKNOWN;
}

static void reach(struct search *s, uint64_t at, unsigned int state)
{
	unsigned int merged;

	if (at >= s->len)
		return;
	merged = merge(s->state[at], state);
	if (merged == s->state[at])
		return;
	s->state[at] = (uint8_t)merged;
	s->todo[s->ntodo++] = (uint16_t)at;
}

static bool is_push_rbp(const uint8_t *code, size_t len)
{
	return len == 1 && code[0] == 0x55;
}

static bool is_mov_rbp_rsp(const uint8_t *code, size_t len)
{
	return len == 3 && (memcmp(code, "\x48\x89\xe5", 3) == 0 || memcmp(code, "\x48\x8b\xec", 3) == 0);
}

static unsigned int after(unsigned int state, const uint8_t *code, const struct insn *i)
{
	unsigned int dirty = state & DIRTY, base = state & ~(unsigned int)DIRTY;

	if (base == UNKNOWN)
		return UNKNOWN;
	if (base == AT_ENTRY && is_push_rbp(code, i->len))
		return PUSHED | dirty;
	if (base == PUSHED && is_mov_rbp_rsp(code, i->len))
		return FRAMED;
	if (i->is_call) /* its callee puts rsp back, and keeps rbp */
		return state;
	if (i->writes & (BIT(WREG_RBP) | (base == FRAMED ? 0 : BIT(WREG_RSP))))
		return UNKNOWN;
	return base != FRAMED && (i->writes & PRESERVED) ? state | DIRTY : state;
}

/* Where it goes on from @at. True: @offset is there, or the last byte of a call is. */
static bool follow(struct search *s, size_t at, size_t offset)
{
	unsigned int state = s->state[at];
	struct insn i;

	if (!insn_decode(s->code + at, s->len - at, at, &i))
		return false;
	state = after(state, s->code + at, &i);
	if (i.has_target && !i.is_call)
		reach(s, i.target, state);
	if (!i.is_ret && (!i.is_jmp || i.is_cond))
		reach(s, at + i.len, state);
	return offset == at || (i.is_call && offset == at + i.len - 1);
}

static void make_rule(unsigned int state, struct unwind_rule *ret)
{
	*ret = (struct unwind_rule){ .kind = UNWIND_CFA_REG,
				     .cfa_reg = state == FRAMED ? WREG_RBP : WREG_RSP,
				     .cfa_off = state == AT_ENTRY ? 8 : 16 };
	for (unsigned int k = 0; k < UNWIND_SAVES; k++)
		ret->save[k] = UNWIND_SAME;
	if (state != AT_ENTRY)
		ret->save[UNWIND_SAVE_RBP] = -2;
	ret->save[UNWIND_SAVE_RA] = -1;
}

bool cfi_frame_rule(const uint8_t *code, size_t len, size_t offset, struct unwind_rule *ret)
{
	struct search s = { .code = code, .len = len < CFI_FRAME_MAX ? len : CFI_FRAME_MAX };
	size_t found = s.len;

	if (offset >= s.len)
		return false;
	reach(&s, 0, AT_ENTRY);
	while (s.ntodo) {
		size_t at = s.todo[--s.ntodo];

		if (follow(&s, at, offset))
			found = at;
	}
	if (found == s.len || s.state[found] == UNKNOWN || (s.state[found] & DIRTY))
		return false;
	make_rule(s.state[found], ret);
	return true;
}
