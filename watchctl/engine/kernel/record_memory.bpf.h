/*
 * record_memory - reads the program's memory, for record.bpf.c. Functions that are not static are gone
 * through by the verifier once each, not once a call.
 */
#ifndef WATCHCTL_ENGINE_KERNEL_RECORD_MEMORY_BPF_H
#define WATCHCTL_ENGINE_KERNEL_RECORD_MEMORY_BPF_H

#include "watchctl/engine/kernel/record_state.bpf.h"

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
	if (len > s->window_want)
		len = s->window_want;
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

#endif
