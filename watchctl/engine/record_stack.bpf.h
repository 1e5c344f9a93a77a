/*
 * record_stack - reads the program's memory, for record.bpf.c, and unwinds its stack there. Functions that
 * are not static are gone through by the verifier once each, not once a call.
 */
#ifndef WATCHCTL_ENGINE_RECORD_STACK_BPF_H
#define WATCHCTL_ENGINE_RECORD_STACK_BPF_H

#include "watchctl/engine/record_state.bpf.h"

/*
 * Where the kernel itself has the memory that the program sees at @addr, up to the end of its page; 0: it has
 * it not, or not at hand.
 */
__noinline uint64_t translate(uint64_t addr)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	uint64_t table = (uint64_t)task->mm->pgd, entry, inside;
	uint32_t shift, i;

	if (page_levels < 4 || page_levels > 5 || !direct_map)
		return 0;
	shift = 3 + 9 * page_levels;
	for (i = 0; i < 5; i++, shift -= 9) {
		uint64_t at = table + 8 * (addr >> (shift & 63) & 511);

		if (bpf_probe_read_kernel(&entry, sizeof(entry), (const void *)at) || !(entry & PTE_PRESENT))
			return 0;
		inside = (1ull << (shift & 63)) - 1;
		if (shift <= 12 || (shift <= 30 && (entry & PTE_HUGE)))
			return direct_map + (entry & frame_mask & ~inside) + (addr & inside);
		table = direct_map + (entry & frame_mask);
	}
	return 0;
}

/* What the program has there: @len bytes of one page. */
static __always_inline bool read_user(void *buf, uint32_t len, uint64_t addr)
{
	uint64_t at;

	if (!careful)
		return !bpf_probe_read_user(buf, len, (const void *)addr);
	at = translate(addr);
	return at && !bpf_probe_read_kernel(buf, len, (const void *)at);
}

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

/* Moves the window to @addr; or, where not even that much is there, reads the word alone. */
__noinline int read_far(struct scratch *s, uint64_t addr)
{
	uint64_t from = addr & ~63ull, end = (addr & ~(PAGE - 1ull)) + PAGE, len = end - from;

	if (!s)
		return 0;
	if (addr + 8 > end) { /* over a page's end: nothing that a compiler does */
		uint32_t low, high;

		if (!read_user(&low, 4, addr) || !read_user(&high, 4, addr + 4))
			return 0;
		s->word = low | (uint64_t)high << 32;
		return 1;
	}
	if (len > WINDOW)
		len = WINDOW;
	s->window_len = 0;
	if (len < 8 || !read_user(s->window, (uint32_t)len, from))
		return 0;
	s->window_addr = from;
	s->window_len = len;
	from = addr - from;
	if (from > WINDOW - 8)
		return 0;
	s->word = *(const uint64_t *)(s->window + from);
	return 1;
}

/* The word at @addr of the stack, into s->word. */
__noinline int read_word(struct scratch *s, uint64_t addr)
{
	uint64_t at;

	if (!s)
		return 0;
	at = addr - s->window_addr;
	if (at > WINDOW - 8 || at + 8 > s->window_len)
		return read_far(s, addr);
	s->word = *(const uint64_t *)(s->window + at);
	return 1;
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
	uint64_t sp, pc, key;
	int at;

	if (!s)
		return 1;
	sp = s->outer.r[WREG_RSP];
	pc = s->outer.r[WREG_RIP];
	key = s->exact ? pc : pc | WIRE_RETURN_ADDRESS;
	s->walk_end = WALK_END_UNKNOWN_PC;
	at = find_rule(key);
	if (at < 0)
		return 1;
	r = rules() + (at & (WIRE_RULES - 1));
	s->rule = *(const struct unwind_rule *)&r->rule;
	/* Withdrawn while we copied? Then it is as if it had not been there. */
	if (r->key != key)
		return 1;
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

	s->outer = s->rec.regs;
	s->exact = !(s->rec.flags & WIRE_KERNEL) || !is_after_syscall(s->outer.r[WREG_RIP]);
	s->walk_end = WALK_END_DEPTH;
	s->window_len = 0;
	s->frame_count = 1;
	*(uint64_t *)s->tail = s->outer.r[WREG_RIP];
	if (!s->outer.r[WREG_RIP] && !s->outer.r[WREG_RSP]) /* a thread that never runs in user mode */
		s->walk_end = WALK_END_COMPLETE;
	else if (max > 1)
		bpf_loop(max < WIRE_FRAMES ? max - 1 : WIRE_FRAMES - 1, walk_step, &s, 0);
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
