/*
 * record_past - remembers the walks that were made, for record_stack.bpf.h. A program comes to the same
 * access by the same ways, again and again. Where a walk goes is decided by few things: the innermost frame's
 * address and stack pointer, the words that hold return addresses, and what the rules on its way counted
 * from, be it a word of the stack or a register as it was at the hit. Where all of these are what they were,
 * and no rule has been withdrawn, the frames are those of that time; to compare them costs a fraction of a
 * walk.
 */
#ifndef WATCHCTL_ENGINE_KERNEL_RECORD_PAST_BPF_H
#define WATCHCTL_ENGINE_KERNEL_RECORD_PAST_BPF_H

#include "watchctl/engine/kernel/record_memory.bpf.h"

#define AT_RETURN_ADDRESS (1ull << 63) /* past_word.at: the value is that of the next frame */
#define REGISTERS 16u		       /* past_word.at below it is a register as it was at the hit */

static __always_inline uint64_t rule_key(uint64_t pc, bool exact)
{
	return exact ? pc : pc | WIRE_RETURN_ADDRESS;
}

static __always_inline struct past_walk *past_of(struct scratch *s)
{
	return &s->past[s->past_at & (PAST_WALKS - 1)];
}

static __always_inline bool is_what_it_was(struct scratch *s, const struct past_word *w)
{
	uint64_t at = w->at & ~AT_RETURN_ADDRESS, inside = at - s->window_addr;

	if (at < REGISTERS)
		return s->rec.regs.r[at] == w->value;
	if (inside <= WINDOW - 8 && inside + 8 <= s->window_len)
		return *(const uint64_t *)(s->window + inside) == w->value;
	return read_far(s, at) && s->word == w->value;
}

/* Puts the frames where a walk would. No calls in the usual case: the kernel's returns are dear. */
static __always_inline bool goes_as_before(struct scratch *s, const struct past_walk *p)
{
	uint32_t i;

	s->window_want = p->reach;
	for (i = 0; i < PAST_WORDS && i < p->nwords; i++) {
		const struct past_word *w = &p->word[i];
		uint64_t n;

		if (!is_what_it_was(s, w)) {
			s->frame_count = 1;
			return false;
		}
		n = s->frame_count; /* in memory: the verifier need not report its values apart */
		if (!(w->at & AT_RETURN_ADDRESS) || n >= WIRE_FRAMES)
			continue;
		*(uint64_t *)(s->tail + 8 * n) = w->value;
		s->frame_count = n + 1;
	}
	s->walk_end = p->walk_end;
	s->exact = p->exact;
	return true;
}

/* Those that differ each time are not learnt again each time. */
static __always_inline bool is_worth_learning(struct past_walk *p)
{
	uint16_t failed = ++p->failed;

	return !(failed & (failed - 1));
}

/*
 * True: this walk was made before, and its frames are where a walk would put them. Else s->learns is whether
 * it is to be remembered: when it comes for the second time.
 */
__noinline int recall(struct scratch *s)
{
	uint64_t withdrawn = control()->rules_withdrawn;
	struct past_walk *p;
	uint64_t key, sp;

	if (!s)
		return 0;
	sp = s->rec.regs.r[WREG_RSP];
	key = rule_key(s->rec.regs.r[WREG_RIP], s->exact);
	s->past_at = (uint32_t)wire_hash(key ^ sp);
	p = past_of(s);
	s->learns = 0;
	if (p->key != key || p->sp != sp) {
		p->key = key;
		p->sp = sp;
		p->nwords = p->failed = 0;
		return 0;
	}
	if (p->nwords && p->withdrawn == withdrawn && goes_as_before(s, p)) {
		p->failed = 0;
		return 1;
	}
	s->window_want = WINDOW_USUAL;
	s->learns = is_worth_learning(p);
	if (s->learns) {
		p->nwords = s->learnt = 0;
		s->lowest = s->highest = 0;
		p->withdrawn = withdrawn;
		__builtin_memset(s->stored_at, 0, sizeof(s->stored_at));
	}
	return 0;
}

static __always_inline void learn(struct scratch *s, uint64_t at, uint64_t value)
{
	uint32_t i = s->learnt;

	if (i >= PAST_WORDS) {
		s->learns = 0;
		return;
	}
	barrier_var(i); /* else the verifier is shown another copy than the one that was compared */
	past_of(s)->word[i & (PAST_WORDS - 1)].at = at;
	at &= ~AT_RETURN_ADDRESS;
	if (at >= REGISTERS) {
		if (!s->lowest)
			s->lowest = at;
		if (at > s->highest)
			s->highest = at;
	}
	past_of(s)->word[i & (PAST_WORDS - 1)].value = value;
	s->learnt = i + 1;
}

/* The register decides. Stack pointers follow from what has been learnt before. */
static __always_inline void learn_register(struct scratch *s, uint32_t reg)
{
	uint64_t at;

	if (reg >= REGISTERS)
		s->learns = 0;
	reg &= REGISTERS - 1;
	at = s->stored_at[reg];
	if (reg != WREG_RSP)
		learn(s, at ? at : reg, s->outer.r[reg]);
}

/* Before s->rule is applied to s->outer. */
__noinline int learn_from_rule(struct scratch *s)
{
	if (!s)
		return 0;
	s->inner_rbp = s->outer.r[WREG_RBP];
	s->link_at = 0;
	switch (s->rule.kind) {
	case UNWIND_CFA_DEREF:
		s->link_at = s->outer.r[s->rule.cfa_reg & (REGISTERS - 1)] + (int64_t)s->rule.cfa_off;
		if (s->rule.cfa_index) {
			learn_register(s, s->rule.cfa_index - 1);
			s->link_at += 8 * s->outer.r[(s->rule.cfa_index - 1) & (REGISTERS - 1)];
		}
		learn_register(s, s->rule.cfa_reg);
		break;
	case UNWIND_CFA_REG:
		learn_register(s, s->rule.cfa_reg);
		break;
	case UNWIND_FP:
		learn_register(s, WREG_RBP);
		break;
	case UNWIND_PLT:
	case UNWIND_OUTERMOST:
		break;
	default: /* a signal's frame holds all registers */
		s->learns = 0;
	}
	if (s->rule.from_rbp)
		learn_register(s, WREG_RBP);
	return 0;
}

static __always_inline uint64_t save_at(const struct scratch *s, unsigned int i)
{
	uint64_t from = s->rule.from_rbp >> i & 1 ? s->inner_rbp : s->outer.r[WREG_RSP];

	return from + 8 * (int64_t)s->rule.save[i];
}

/* After it was: what it has read. */
__noinline int learn_from_frame(struct scratch *s)
{
	static const uint8_t saved[UNWIND_SAVE_RA] = { WREG_RBX, WREG_RBP, WREG_R12,
						       WREG_R13, WREG_R14, WREG_R15 };
	uint64_t pc;
	unsigned int i;

	if (!s)
		return 0;
	pc = s->outer.r[WREG_RIP];
	if (s->link_at)
		learn(s, s->link_at, s->outer.r[WREG_RSP] - (int64_t)s->rule.cfa_off2);
	learn(s, save_at(s, UNWIND_SAVE_RA) | (pc ? AT_RETURN_ADDRESS : 0), pc);
	for (i = 0; i < UNWIND_SAVE_RA; i++)
		if (s->rule.save[i] != UNWIND_SAME)
			s->stored_at[saved[i] & (REGISTERS - 1)] = save_at(s, i);
	return 0;
}

/* Of a walk that has ended where it always will. */
static __always_inline void keep_learnt(struct scratch *s)
{
	struct past_walk *p = past_of(s);
	uint64_t reach;

	if (!s->learns || (s->walk_end != WALK_END_COMPLETE && s->walk_end != WALK_END_DEPTH))
		return;
	p->walk_end = (uint8_t)s->walk_end;
	p->exact = (uint8_t)s->exact;
	reach = s->highest + 8 - (s->lowest & ~63ull);
	p->reach = (uint16_t)(reach < WINDOW ? reach : WINDOW);
	p->nwords = s->learnt;
}

#endif
