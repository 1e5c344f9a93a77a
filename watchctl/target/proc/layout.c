#include "watchctl/target/proc/layout.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/target/proc/proc.h"

struct stretch {
	uint64_t start, end;
	bool read, write, shared;
};

struct layout {
	pid_t pid;
	struct stretch *v; /* by address */
	size_t n, cap;
	uint64_t stack_start, stack_end;
	uint64_t stack_kb; /* of all that grows like a stack */
	bool no_memory;
};

static bool note_map(void *ctx, const struct proc_map *m)
{
	struct layout *l = ctx;
	const struct stretch s = { m->start, m->end, m->read, m->write, m->shared };

	if (!strcmp(m->name, "[stack]")) {
		l->stack_start = m->start;
		l->stack_end = m->end;
	}
	l->no_memory = !vec_push(l->v, l->n, l->cap, s);
	return !l->no_memory;
}

static uint64_t stack_kb(pid_t pid)
{
	struct proc_status s;

	return proc_status_read(pid, pid, &s) ? s.stack_kb : 0;
}

struct layout *layout_read(pid_t pid)
{
	struct layout *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->pid = pid;
	l->stack_kb = stack_kb(pid); /* before: what grows meanwhile shows later */
	if (proc_maps(pid, note_map, l) && !l->no_memory)
		return l;
	layout_free(l);
	return NULL;
}

void layout_free(struct layout *l)
{
	if (!l)
		return;
	free(l->v);
	free(l);
}

bool layout_is_current(const struct layout *l)
{
	return stack_kb(l->pid) == l->stack_kb;
}

void layout_main_stack(const struct layout *l, uint64_t *start, uint64_t *end)
{
	*start = l->stack_start;
	*end = l->stack_end;
}

/* The first stretch that ends behind @addr; l->n: none. */
static size_t layout_find(const struct layout *l, uint64_t addr)
{
	size_t low = 0, high = l->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (l->v[middle].end > addr)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Where there is a guard below, as under a stack. NULL: there is none. */
static const struct stretch *guarded(const struct layout *l, uint64_t sp)
{
	size_t i = layout_find(l, sp);
	const struct stretch *s = l->v + i, *below = s - 1;

	if (!i || i == l->n || s->start > sp || !s->write || s->shared)
		return NULL;
	return below->end == s->start && !below->read && !below->write ? s : NULL;
}

bool layout_guarded(const struct layout *l, uint64_t sp, uint64_t *ret)
{
	const struct stretch *s = guarded(l, sp);

	if (s)
		*ret = s->start;
	return s;
}

bool layout_thread_stack(const struct layout *l, uint64_t sp, uint64_t tls, uint64_t *ret)
{
	const struct stretch *s = guarded(l, sp);

	return s && tls > sp && tls < s->end && layout_guarded(l, sp, ret);
}

bool layout_is_free(const struct layout *l, uint64_t start, uint64_t end)
{
	size_t i = layout_find(l, start);

	return i == l->n || l->v[i].start >= end;
}
