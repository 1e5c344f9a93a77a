#include "watchctl/flow/explain/live_stack.h"

#include <stdlib.h>

#include "watchctl/base/cleanup.h"

#define PAGE 4096u

/*
 * The C library's description of the thread lies above its stack, with the argument that the thread was started with; its
 * start is fs, its tid is where the kernel writes when the thread ends.
 */
static uint64_t stack_end(const struct look_thread *t, uint64_t sp)
{
	const uint64_t above[] = { t->has_regs ? t->regs.r[WREG_FS_BASE] : 0, t->clear_child };
	uint64_t end = sp + sizeof(((struct live_stack *)NULL)->word);

	for (size_t i = 0; i < sizeof(above) / sizeof(*above); i++)
		if (above[i] > sp && above[i] < end)
			end = above[i];
	return end;
}

struct live_stack *live_stack_read(const struct look_process *p, const struct look_thread *t)
{
	uint64_t sp = t->regs.r[WREG_RSP];
	struct live_stack *s;
	size_t len = 0, most;

	if (!sp || sp % 8)
		return NULL;
	s = malloc(sizeof(*s));
	if (!s)
		return NULL;
	/* Page by page: the last one before the stack's end can be read, the one behind it cannot. */
	most = (size_t)(stack_end(t, sp) - sp);
	while (len < most) {
		size_t part = PAGE - (sp + len) % PAGE;

		if (part > most - len)
			part = most - len;
		if (!memory_read(&p->mem, sp + len, (char *)s->word + len, part))
			break;
		len += part;
	}
	s->n = len / sizeof(*s->word);
	return s;
}

void live_stack_free(struct live_stack *s)
{
	free(s);
}

size_t live_stack_find(const struct live_stack *s, size_t from, uint64_t value)
{
	while (from < s->n && s->word[from] != value)
		from++;
	return from < s->n ? from : s->n;
}

size_t live_stack_frame(const struct live_stack *s, const struct look_thread *t, unsigned int i)
{
	size_t at = 0;

	for (unsigned int k = 1; k <= i; k++) {
		size_t next = k < t->nframes ? live_stack_find(s, at, t->frame[k].ip) : s->n;

		if (k == i || next == s->n)
			return next;
		at = next + 1;
	}
	return at;
}

bool live_stack_holds(const struct look_process *p, const struct look_thread *t, uint64_t value,
		      unsigned int from_frame)
{
	scoped(live_stack_freep) struct live_stack *s = live_stack_read(p, t);

	return s && live_stack_find(s, live_stack_frame(s, t, from_frame), value) < s->n;
}
