/*
 * Those with the narrowest ranges choose first; the others fill what is left of the pages that these need. Of a range in which
 * there is no page yet, the highest one that is free is taken: ranges come in the order of their ends, so that it is the one that most
 * of those behind can share.
 *
 * Of each page one span of bytes is known to be free. What is taken from the middle of it leaves the longer part.
 */
#include "watchctl/patch/plan/pun_room.h"

#include <stdlib.h>
#include <string.h>

#include "probe/wire.h"
#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"

#define ALIGN 16u
#define NARROW 4096u /* ranges in which nothing is aligned */

struct page {
	uint64_t addr;
	uint32_t from, to; /* offsets: free */
};

struct pages {
	struct page *v; /* by address */
	size_t n, cap, max;
	const struct free_space *space;
	bool limited, failed;
};

static uint64_t page_of(uint64_t addr)
{
	return addr / PROBE_PAGE * PROBE_PAGE;
}

/* The first one at @addr or behind it. */
static size_t page_from(const struct pages *p, uint64_t addr)
{
	size_t low = BISECT(p->n, i, p->v[i].addr < addr);
	return low;
}

static struct page *page_at(const struct pages *p, uint64_t addr)
{
	size_t i = page_from(p, addr);

	return i < p->n && p->v[i].addr == addr ? &p->v[i] : NULL;
}

static bool is_free(const struct pages *p, uint64_t addr)
{
	size_t i = free_space_from(p->space, addr);

	return i < p->space->n && p->space->v[i].start <= addr && !page_at(p, addr);
}

/* NULL: no memory. */
static struct page *open_page(struct pages *p, uint64_t addr)
{
	size_t i = page_from(p, addr);
	const struct page now = { addr, PUN_HEAD, PROBE_PAGE };

	if (!vec_push(p->v, p->n, p->cap, now)) {
		p->failed = true;
		return NULL;
	}
	memmove(&p->v[i + 1], &p->v[i], (p->n - 1 - i) * sizeof(*p->v));
	p->v[i] = now;
	return &p->v[i];
}

static void take(struct page *g, uint32_t from, uint32_t to)
{
	uint32_t before = from > g->from ? from - g->from : 0, behind = g->to > to ? g->to - to : 0;

	if (before > behind)
		g->to = from;
	else
		g->from = to;
}

static uint64_t aligned(const struct pun_want *w, uint64_t at)
{
	return w->high - w->low < NARROW ? at : (at + ALIGN - 1) / ALIGN * ALIGN;
}

/* Where in the page it fits. False: nowhere. */
static bool fits(const struct pun_want *w, const struct page *g, uint64_t *ret)
{
	uint64_t from = g->addr + g->from;

	*ret = aligned(w, from > w->low ? from : w->low);
	return *ret <= w->high && *ret + w->len <= g->addr + g->to;
}

static void settle(struct pun_want *w, struct page *g, uint64_t at)
{
	w->at = at;
	take(g, (uint32_t)(at - g->addr), (uint32_t)(at + w->len - g->addr));
}

static bool try_known(struct pages *p, struct pun_want *w)
{
	uint64_t at;

	for (size_t i = page_from(p, page_of(w->low)); i < p->n && p->v[i].addr <= w->high; i++)
		if (fits(w, &p->v[i], &at)) {
			settle(w, &p->v[i], at);
			return true;
		}
	return false;
}

/* A new page within the span. */
static bool try_span(struct pages *p, struct pun_want *w, const struct free_span *s)
{
	uint64_t lowest = page_of(w->low) > s->start ? page_of(w->low) : s->start;
	uint64_t addr = page_of(w->high) < s->end ? page_of(w->high) : s->end - PROBE_PAGE;
	uint64_t at;

	for (; addr >= lowest; addr -= PROBE_PAGE) {
		const struct page g = { addr, PUN_HEAD, PROBE_PAGE };
		struct page *opened;

		if (page_at(p, addr) || !fits(w, &g, &at))
			continue;
		if (p->n >= p->max) {
			p->limited = true;
			return false;
		}
		opened = open_page(p, addr);
		if (opened)
			settle(w, opened, at);
		return opened != NULL;
	}
	return false;
}

static bool try_new(struct pages *p, struct pun_want *w)
{
	const struct free_space *f = p->space;
	size_t first = free_space_from(f, page_of(w->low)), i = first;

	while (i < f->n && f->v[i].start <= w->high)
		i++;
	for (; i > first && !p->failed && !p->limited; i--)
		if (try_span(p, w, &f->v[i - 1]))
			return true;
	return false;
}

/* The pages that one at @at lies on, and the one before if it leaves no room for an area's head. */
struct stretch {
	uint64_t first, last;
};

static struct stretch stretch_of(const struct pages *p, uint64_t at, uint32_t len)
{
	struct stretch s = { page_of(at), page_of(at + len - 1) };

	if (at - s.first < PUN_HEAD && !page_at(p, s.first - PROBE_PAGE))
		s.first -= PROBE_PAGE;
	return s;
}

/* Whether all that it needs of the page is free, which may be there already. */
static bool may_have(const struct pages *p, uint64_t addr, uint64_t at, uint32_t len)
{
	const struct page *g = page_at(p, addr);
	uint64_t from = at > addr ? at : addr;
	uint64_t to = at + len < addr + PROBE_PAGE ? at + len : addr + PROBE_PAGE;

	if (!g)
		return is_free(p, addr);
	return from >= to || (from >= addr + g->from && to <= addr + g->to);
}

/* Just there, over the end of a page, or at the beginning of one. */
static bool try_at(struct pages *p, struct pun_want *w, uint64_t at)
{
	const struct stretch s = stretch_of(p, at, w->len);
	size_t more = 0;

	for (uint64_t addr = s.first; addr <= s.last; addr += PROBE_PAGE) {
		if (!may_have(p, addr, at, w->len))
			return false;
		more += !page_at(p, addr);
	}
	if (p->n + more > p->max) {
		p->limited = true;
		return false;
	}
	for (uint64_t addr = s.first; addr <= s.last; addr += PROBE_PAGE) {
		struct page *g = page_at(p, addr);
		uint64_t from = at > addr ? at - addr : 0, to = at + w->len - addr;

		if (!g)
			g = open_page(p, addr);
		if (!g)
			return false;
		if (at < addr + PROBE_PAGE)
			take(g, (uint32_t)from, to < PROBE_PAGE ? (uint32_t)to : PROBE_PAGE);
	}
	w->at = at;
	return true;
}

static void place(struct pages *p, struct pun_want *w)
{
	if (w->low > w->high || try_known(p, w))
		return;
	if (!try_new(p, w) && !p->failed && !try_at(p, w, w->high) && w->low != w->high)
		try_at(p, w, w->low);
}

static int by_need(const void *a, const void *b)
{
	const struct pun_want *x = a, *y = b;
	uint64_t i = x->high - x->low, k = y->high - y->low;

	if (i != k)
		return i < k ? -1 : 1;
	return x->high < y->high ? -1 : x->high > y->high;
}

static int by_place(const void *a, const void *b)
{
	const struct pun_want *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

static bool make_areas(const struct pages *p, struct pun_areas *ret)
{
	for (size_t i = 0; i < p->n; i++) {
		struct pun_area *last = ret->n ? &ret->v[ret->n - 1] : NULL;
		const struct pun_area now = { p->v[i].addr, PROBE_PAGE };

		if (last && last->start + last->size == now.start)
			last->size += PROBE_PAGE;
		else if (!vec_push(ret->v, ret->n, ret->cap, now))
			return false;
	}
	return true;
}

bool pun_room_make(struct pun_want *want, size_t n, const struct free_space *space, size_t max_pages,
		   struct pun_areas *ret)
{
	struct pages p = { .max = max_pages, .space = space };
	bool ok;

	*ret = (struct pun_areas){ 0 };
	if (!n)
		return true;
	qsort(want, n, sizeof(*want), by_need);
	for (size_t i = 0; i < n && !p.failed; i++) {
		want[i].at = 0;
		p.limited = false;
		place(&p, &want[i]);
		want[i].limited = p.limited && !want[i].at;
	}
	qsort(want, n, sizeof(*want), by_place);
	ok = !p.failed && make_areas(&p, ret);
	free(p.v);
	if (!ok)
		pun_areas_deinit(ret);
	return ok;
}

void pun_areas_deinit(struct pun_areas *a)
{
	free(a->v);
	*a = (struct pun_areas){ 0 };
}
