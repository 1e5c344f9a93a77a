#include "watchctl/code/unwind/cfi_frame.h"

#include <string.h>

#include "watchctl/code/insn/insn.h"

#define BIT(reg) (1u << (reg))
#define AHEAD_MAX 256u /* instructions */
#define AHEAD_WAYS 16u
#define FRAME_MAX 65536 /* bytes */
#define INT3 0xcc
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

static unsigned int cfi_frame_merge(unsigned int a, unsigned int b)
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
	merged = cfi_frame_merge(s->state[at], state);
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
static bool cfi_frame_follow(struct search *s, size_t at, size_t offset)
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

		if (cfi_frame_follow(&s, at, offset))
			found = at;
	}
	if (found == s.len || s.state[found] == UNKNOWN || (s.state[found] & DIRTY))
		return false;
	make_rule(s.state[found], ret);
	return true;
}

/* leave, or mov rsp, rbp; pop rbp in either of its two encodings. */
static bool leaves_frame(const uint8_t *code, size_t len)
{
	return (len >= 1 && code[0] == 0xc9) || (len >= 4 && (memcmp(code, "\x48\x89\xec\x5d", 4) == 0 ||
							      memcmp(code, "\x48\x8b\xe5\x5d", 4) == 0));
}

/* A way that the code may take, and what it has put back so far. */
struct way {
	uint64_t at;
	int32_t depth;			/* rsp, above what it was at first */
	int32_t popped[UNWIND_SAVE_RA]; /* from where, likewise; -1: not popped */
};

struct ways {
	struct way v[AHEAD_WAYS];
	unsigned int n;
};

/* pop REG: its place in `popped`, or -1: a register that belongs to nobody. */
static int popped_register(const uint8_t *code)
{
	unsigned int reg = code[0] == 0x41 ? (code[1] & 7u) + 8 : code[0] & 7u;

	switch (reg) {
	case 3:
		return UNWIND_SAVE_RBX;
	case 5:
		return UNWIND_SAVE_RBP;
	case 12:
	case 13:
	case 14:
	case 15:
		return UNWIND_SAVE_R12 + (int)reg - 12;
	default:
		return -1;
	}
}

static bool is_pop_register(const uint8_t *code, const struct insn *i)
{
	return (i->len == 1 && (code[0] & 0xf8) == 0x58) ||
	       (i->len == 2 && code[0] == 0x41 && (code[1] & 0xf8) == 0x58);
}

/* add rsp, IMM or sub rsp, IMM: by how much; 0: neither. */
static int32_t rsp_moves_by(const uint8_t *code, const struct insn *i)
{
	bool subtracts = i->len > 2 && code[2] == 0xec;
	int32_t by;

	if (i->len < 4 || code[0] != 0x48 || (code[2] != 0xc4 && !subtracts))
		return 0;
	if (code[1] == 0x83 && i->len == 4)
		by = code[3] < 0x80 ? code[3] : code[3] - 0x100;
	else if (code[1] == 0x81 && i->len == 7)
		memcpy(&by, code + 3, sizeof(by));
	else
		return 0;
	return by > -FRAME_MAX && by < FRAME_MAX ? (subtracts ? -by : by) : 0;
}

/* What the instruction does to the stack and to rbp. False: something else than taking the frame down. */
static bool take_down(struct way *w, const uint8_t *code, const struct insn *i)
{
	int save;

	if (i->is_call)
		return false;
	if (!(i->writes & (BIT(WREG_RBP) | BIT(WREG_RSP))))
		return true;
	if (is_pop_register(code, i)) {
		save = popped_register(code);
		if (save >= 0)
			w->popped[save] = w->depth;
		w->depth += 8;
	} else if (i->writes & BIT(WREG_RBP)) {
		return false;
	} else if (i->undo == INSN_UNDO_POP || i->undo == INSN_UNDO_PUSH) {
		w->depth += i->undo == INSN_UNDO_POP ? (int32_t)i->undo_size : -(int32_t)i->undo_size;
	} else {
		int32_t by = rsp_moves_by(code, i);

		w->depth += by;
		if (!by)
			return false;
	}
	return w->depth >= 0 && w->depth < FRAME_MAX;
}

/* Goes on by one instruction, which is no return. False: this way ends there. */
static bool step_ahead(const uint8_t *code, size_t len, struct way *w, struct ways *others)
{
	struct insn i;

	if (w->at >= len || code[w->at] == INT3 || !insn_decode(code + w->at, len - w->at, w->at, &i) ||
	    i.is_ret || !take_down(w, code + w->at, &i))
		return false;
	w->at += i.len;
	if (!i.is_jmp)
		return true;
	if (w->popped[UNWIND_SAVE_RBP] >= 0) /* a tail call, maybe */
		return false;
	if (!i.has_target || i.target < w->at || i.target >= len) /* backwards: it has been, or is not ours */
		return i.is_cond;
	if (i.is_cond && others->n < AHEAD_WAYS) {
		others->v[others->n] = *w;
		others->v[others->n++].at = i.target;
	}
	if (!i.is_cond)
		w->at = i.target;
	return true;
}

static bool returns(const uint8_t *code, size_t len, const struct way *w)
{
	return len && w->popped[UNWIND_SAVE_RBP] >= 0 && (code[0] == 0xc3 || code[0] == 0xc2);
}

static void make_rule_of_pops(const struct way *w, struct unwind_rule *ret)
{
	*ret = (struct unwind_rule){ .kind = UNWIND_CFA_REG, .cfa_reg = WREG_RSP, .cfa_off = w->depth + 8 };
	for (unsigned int k = 0; k < UNWIND_SAVE_RA; k++)
		ret->save[k] = w->popped[k] < 0 ? UNWIND_SAME : (int16_t)((w->popped[k] - ret->cfa_off) / 8);
	ret->save[UNWIND_SAVE_RA] = -1;
}

/* Along one way, to its end or to where the frame is gone. */
static bool frame_ends(const uint8_t *code, size_t len, struct way *w, struct ways *others,
		       unsigned int *steps, struct unwind_rule *ret)
{
	do {
		size_t left = w->at < len ? len - w->at : 0;

		if (w->popped[UNWIND_SAVE_RBP] < 0 && leaves_frame(code + w->at, left)) {
			make_rule(FRAMED, ret);
			return true;
		}
		if (returns(code + w->at, left, w)) {
			make_rule_of_pops(w, ret);
			return true;
		}
	} while (step_ahead(code, len, w, others) && ++*steps < AHEAD_MAX);
	return false;
}

bool cfi_frame_rule_ahead(const uint8_t *code, size_t len, struct unwind_rule *ret)
{
	struct ways ways = { .n = 1 };
	unsigned int steps = 0;

	memset(ways.v[0].popped, 0xff, sizeof(ways.v[0].popped));
	while (ways.n && steps < AHEAD_MAX) {
		struct way w = ways.v[--ways.n];

		if (frame_ends(code, len, &w, &ways, &steps, ret))
			return true;
	}
	return false;
}
