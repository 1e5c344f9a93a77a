#include "watchctl/patch/plan/free_space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/wire.h"
#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"
#include "watchctl/target/proc/proc.h"

#define MARGIN 0x10000u		    /* to what is mapped beside it */
#define HEAP_MARGIN (1ull << 30)    /* behind the heap as it is */
#define STACK_MARGIN (256ull << 20) /* before what grows downwards */
#define HIGHEST 0x7ffffffff000ull

struct reading {
	struct free_space found;
	uint64_t last_end;	       /* of the mapping before */
	uint64_t heap_start, heap_end; /* start 0: not known */
	bool failed;
};

void free_space_deinit(struct free_space *f)
{
	free(f->v);
	*f = (struct free_space){ 0 };
}

static void add(struct reading *r, uint64_t from, uint64_t to)
{
	struct free_space *f = &r->found;

	from = (from + PROBE_PAGE - 1) / PROBE_PAGE * PROBE_PAGE;
	to = (to < HIGHEST ? to : HIGHEST) / PROBE_PAGE * PROBE_PAGE;
	if (from < to)
		r->failed |= !vec_push(f->v, f->n, f->cap, (struct free_span){ from, to });
}

static bool consider(void *ctx, const struct proc_map *m)
{
	struct reading *r = ctx;
	uint64_t before = !strcmp(m->name, "[stack]") ? STACK_MARGIN : MARGIN;

	r->found.mappings++;
	if (m->start > before)
		add(r, r->last_end + MARGIN, m->start - before);
	if (!strcmp(m->name, "[heap]"))
		r->heap_end = m->end;
	r->last_end = m->end;
	return !r->failed;
}

/* Takes out where the heap may grow. */
static void spare_heap(struct reading *r)
{
	struct free_space all = r->found;
	uint64_t start = r->heap_start ? r->heap_start : r->heap_end;
	uint64_t end = (r->heap_end > start ? r->heap_end : start) + HEAP_MARGIN;

	if (!start)
		return;
	r->found = (struct free_space){ .mappings = all.mappings };
	for (size_t i = 0; i < all.n; i++) {
		const struct free_span *s = &all.v[i];

		add(r, s->start, s->end < start ? s->end : start);
		add(r, s->start > end ? s->start : end, s->end);
	}
	free(all.v);
}

bool free_space_read(pid_t pid, struct free_space *ret)
{
	struct reading r = { .heap_start = proc_heap_start(pid) };
	bool ok = proc_maps(pid, consider, &r);

	*ret = (struct free_space){ 0 };
	if (ok) {
		add(&r, r.last_end + MARGIN, HIGHEST);
		spare_heap(&r);
	}
	if (r.failed)
		errno = ENOMEM;
	if (ok && !r.failed)
		*ret = r.found;
	else
		free_space_deinit(&r.found);
	return ok && !r.failed;
}

size_t free_space_from(const struct free_space *f, uint64_t addr)
{
	size_t low = BISECT(f->n, i, f->v[i].end <= addr);
	return low;
}

bool free_space_any(const struct free_space *f, uint64_t low, uint64_t high)
{
	size_t i = free_space_from(f, low);

	return low <= high && i < f->n && f->v[i].start <= high;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

bool free_space_find(const struct free_space *f, uint64_t low, uint64_t high, uint64_t size, uint64_t *ret)
{
	const uint64_t middle = low + (high - low) / 2;
	bool found = false;

	low = (low + PROBE_PAGE - 1) / PROBE_PAGE * PROBE_PAGE;
	for (size_t i = free_space_from(f, low); i < f->n && f->v[i].start < high; i++) {
		uint64_t from = f->v[i].start > low ? f->v[i].start : low;
		uint64_t to = (f->v[i].end < high ? f->v[i].end : high) / PROBE_PAGE * PROBE_PAGE;
		uint64_t at;

		if (from >= to || to - from < size)
			continue;
		at = distance(from, middle) < distance(to - size, middle) ? from : to - size;
		if (found && distance(at, middle) >= distance(*ret, middle))
			continue;
		*ret = at;
		found = true;
	}
	return found;
}
