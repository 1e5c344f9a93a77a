#include "watchctl/view/page/page_choice.h"

#include <stdlib.h>

#include "watchctl/base/vec.h"

void page_choice_init(struct page_choice *c, size_t all)
{
	*c = (struct page_choice){ .all = all };
	c->even = (struct page_share){ .max = all, .stride = 1 };
	c->changes = (struct page_share){ .max = PAGE_CHANGES, .stride = 1 };
	c->ends.each = PAGE_ENDS;
	for (size_t i = 0; i < PAGE_SITES_CHOSEN; i++)
		c->site[i].each = PAGE_SITE_ENDS;
}

static struct page_detail *detail_new(struct page_choice *c)
{
	struct page_detail *d = c->unused;

	if (!d)
		return malloc(sizeof(*d));
	c->unused = d->next;
	return d;
}

static void release(struct page_choice *c, struct page_detail *d)
{
	if (!d || --d->refs)
		return;
	d->next = c->unused;
	c->unused = d;
}

static void share_thin(struct page_choice *c, struct page_share *s)
{
	size_t i, kept = 0;

	s->stride *= 2;
	for (i = 0; i < s->n; i++) {
		if (i % 2)
			release(c, s->v[i]);
		else
			s->v[kept++] = s->v[i];
	}
	s->n = kept;
}

static bool share_offer(struct page_choice *c, struct page_share *s, struct page_detail *d, size_t later_max)
{
	uint64_t number = s->offered++;

	if (number % s->stride)
		return true;
	while (s->n >= s->max) {
		share_thin(c, s);
		s->max = later_max;
	}
	if (number % s->stride)
		return true;
	if (!vec_push(s->v, s->n, s->cap, d))
		return false;
	d->refs++;
	return true;
}

static bool ends_offer(struct page_choice *c, struct page_ends *e, struct page_detail *d)
{
	struct page_detail **at;

	if (!e->v)
		e->v = calloc(2 * e->each, sizeof(struct page_detail *));
	if (!e->v)
		return false;
	at = &e->v[e->offered < e->each ? e->offered : e->each + e->offered % e->each];
	e->offered++;
	release(c, *at);
	*at = d;
	d->refs++;
	return true;
}

bool page_choice_offer(struct page_choice *c, const struct page_event *e, const struct regs *regs,
		       uint32_t site, bool changes)
{
	struct page_detail *d = detail_new(c);
	bool ok;

	if (!d)
		return false;
	*d = (struct page_detail){ .e = *e, .regs = *regs, .refs = 1 };
	ok = ends_offer(c, &c->ends, d) &&
	     share_offer(c, &c->even, d, c->all < PAGE_EVEN ? c->all : PAGE_EVEN);
	if (site < PAGE_SITES_CHOSEN)
		ok = ok && ends_offer(c, &c->site[site], d);
	if (changes)
		ok = ok && share_offer(c, &c->changes, d, PAGE_CHANGES);
	release(c, d);
	return ok;
}

static int by_seq(const void *a, const void *b)
{
	const struct page_detail *const *x = a, *const *y = b;

	return ((*x)->e.seq > (*y)->e.seq) - ((*x)->e.seq < (*y)->e.seq);
}

struct list {
	struct page_detail **v;
	size_t n, cap;
};

static bool list_add(struct list *l, struct page_detail *const *v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (v[i] && !vec_push(l->v, l->n, l->cap, v[i]))
			return false;
	return true;
}

static bool list_ends(struct list *l, const struct page_ends *e)
{
	return !e->v || list_add(l, e->v, 2 * e->each);
}

bool page_choice_list(struct page_choice *c, struct page_detail ***ret, size_t *n)
{
	struct list l = { 0 };
	bool all = c->even.stride == 1;
	bool ok = list_add(&l, c->even.v, c->even.n);
	size_t i, kept = 0;

	for (i = 0; ok && !all && i < PAGE_SITES_CHOSEN; i++)
		ok = list_ends(&l, &c->site[i]);
	ok = ok && (all || (list_ends(&l, &c->ends) && list_add(&l, c->changes.v, c->changes.n)));
	if (!ok) {
		free(l.v);
		return false;
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(struct page_detail *), by_seq);
	for (i = 0; i < l.n; i++)
		if (!kept || l.v[kept - 1] != l.v[i])
			l.v[kept++] = l.v[i];
	*ret = l.v;
	*n = kept;
	return true;
}

static void release_all(struct page_choice *c, struct page_detail **v, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		release(c, v[i]);
	free(v);
}

void page_choice_deinit(struct page_choice *c)
{
	struct page_detail *d;

	release_all(c, c->even.v, c->even.n);
	release_all(c, c->changes.v, c->changes.n);
	release_all(c, c->ends.v, c->ends.v ? 2 * c->ends.each : 0);
	for (size_t i = 0; i < PAGE_SITES_CHOSEN; i++)
		release_all(c, c->site[i].v, c->site[i].v ? 2 * c->site[i].each : 0);
	while ((d = c->unused)) {
		c->unused = d->next;
		free(d);
	}
	*c = (struct page_choice){ 0 };
}
