/*
 * record_stack - unwinds the program's stack, for record.bpf.c, or remembers how it went before.
 */
#ifndef WATCHCTL_ENGINE_KERNEL_RECORD_STACK_BPF_H
#define WATCHCTL_ENGINE_KERNEL_RECORD_STACK_BPF_H

#include "watchctl/engine/kernel/record_past.bpf.h"

/* The place in the table, or -1. One function each, so that the verifier goes through them once. */
__noinline int find_rule(uint64_t key)
{
	uint64_t i = wire_hash(key);
	unsigned int n;

	for (n = 0; n < WIRE_PROBES; n++, i++) {
		const volatile struct wire_rule *r = rules() + (i & (WIRE_RULES - 1));
		uint64_t found = r->key;

		if (found == key)
			return (int)(i & (WIRE_RULES - 1));
		if (!found)
			break;
	}
	return -1;
}

static __always_inline bool read_stack(void *ctx, uint64_t addr, uint64_t *ret)
{
	struct scratch *s = ctx;

	if (!read_word(s, addr))
		return false;
	*ret = s->word;
	return true;
}

/* One frame outwards, as wire_walk() goes. 0: there may be more. */
__noinline int step(struct scratch *s)
{
	const volatile struct wire_rule *r;
	uint64_t sp, key;
	int at;

	if (!s)
		return 1;
	sp = s->outer.r[WREG_RSP];
	key = rule_key(s->outer.r[WREG_RIP], s->exact);
	s->walk_end = WALK_END_UNKNOWN_PC;
	at = find_rule(key);
	if (at < 0)
		return 1;
	r = rules() + (at & (WIRE_RULES - 1));
	s->rule = *(const struct unwind_rule *)&r->rule;
	/* Withdrawn while we copied? Then it is as if it had not been there. */
	if (r->key != key)
		return 1;
	if (s->learns)
		learn_from_rule(s);
	switch (unwind_step(&s->rule, &s->outer, read_stack, s)) {
	case UNWIND_STEP_OK:
		break;
	case UNWIND_STEP_END:
		s->walk_end = WALK_END_COMPLETE;
		return 1;
	case UNWIND_STEP_UNREADABLE:
		s->walk_end = WALK_END_UNREADABLE;
		return 1;
	default:
		s->walk_end = WALK_END_NO_RULE;
		return 1;
	}
	s->exact = s->rule.kind == UNWIND_SIGFRAME;
	if (s->learns)
		learn_from_frame(s);
	if (!s->exact && s->outer.r[WREG_RSP] <= sp) {
		s->walk_end = WALK_END_NOT_ASCENDING;
		return 1;
	}
	if (!s->outer.r[WREG_RIP]) {
		s->walk_end = WALK_END_COMPLETE;
		return 1;
	}
	s->walk_end = WALK_END_DEPTH;
	return 0;
}

static long walk_step(uint64_t i, struct scratch **ctx)
{
	struct scratch *s = *ctx;
	uint64_t n;

	if (step(s))
		return 1;
	n = s->frame_count;
	if (n >= WIRE_FRAMES)
		return 1;
	*(uint64_t *)(s->tail + 8 * n) = s->outer.r[WREG_RIP];
	s->frame_count = n + 1;
	return 0;
}

/* Inside a system call the address is a return address: the instruction before it may end its function. */
static __always_inline bool is_after_syscall(uint64_t pc)
{
	uint16_t code = 0;

	return !bpf_probe_read_user(&code, sizeof(code), (const void *)(pc - sizeof(code))) &&
	       code == SYSCALL_INSN;
}

static __always_inline void walk(struct scratch *s)
{
	uint32_t max = control()->max_frames;

	uint64_t pc = s->rec.regs.r[WREG_RIP];

	s->exact = !(s->rec.flags & WIRE_KERNEL) || !is_after_syscall(pc);
	s->walk_end = WALK_END_DEPTH;
	s->window_len = 0;
	s->window_want = WINDOW_USUAL;
	s->frame_count = 1;
	*(uint64_t *)s->tail = pc;
	if (!pc && !s->rec.regs.r[WREG_RSP]) { /* a thread that never runs in user mode */
		s->walk_end = WALK_END_COMPLETE;
	} else if (max > 1 && !recall(s)) {
		s->outer = s->rec.regs;
		bpf_loop(max < WIRE_FRAMES ? max - 1 : WIRE_FRAMES - 1, walk_step, &s, 0);
		keep_learnt(s);
	}
}

/* As much of the stack from @sp upwards as can be read, up to @want; to @offset of the tail. */
__noinline int copy_raw_stack(struct scratch *s, uint32_t offset, uint64_t sp, uint32_t want)
{
	uint32_t len = 0, i;

	if (!s)
		return 0;
	for (i = 0; i < WIRE_RAW_MAX / PAGE + 1 && len < want; i++) {
		uint32_t chunk = PAGE - (uint32_t)((sp + len) & (PAGE - 1)), at = offset + len;

		if (chunk > want - len)
			chunk = want - len;
		if (chunk > PAGE || at > TAIL_MAX || !read_user(s->tail + at, chunk, sp + len))
			break;
		len += chunk;
	}
	return (int)(len & ~7u);
}

static __always_inline uint32_t put_raw_stack(struct scratch *s, uint32_t len, uint64_t waiting)
{
	uint32_t raw = control()->raw_size;

	if (len > 8 * WIRE_FRAMES)
		return len;
	/* A shorter walk, said to be one, is better than a lost event: as in handler.c. */
	if (waiting > control()->ring_size / 2 && raw > RAW_WHEN_LAGGING)
		raw = RAW_WHEN_LAGGING;
	if (raw > WIRE_RAW_MAX)
		raw = WIRE_RAW_MAX;
	*(struct regs *)(s->tail + len) = s->outer;
	len += sizeof(struct regs);
	s->rec.raw_addr = s->outer.r[WREG_RSP];
	s->rec.raw_len = (uint32_t)copy_raw_stack(s, len, s->rec.raw_addr, raw & ~7u);
	return len + s->rec.raw_len;
}

#endif
