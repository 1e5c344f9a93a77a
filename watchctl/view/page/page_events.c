#include "watchctl/view/page/page_events.h"

#include <stdlib.h>

#include "watchctl/base/vec.h"

void page_events_init(struct page_events *e, size_t max)
{
	*e = (struct page_events){ .max = max, .stride = 1 };
}

void page_events_deinit(struct page_events *e)
{
	free(e->v);
	*e = (struct page_events){ 0 };
}

/* Leaves out every second of those that were kept. */
static void thin(struct page_events *e)
{
	size_t i, kept = 0;

	e->stride *= 2;
	for (i = 0; i < e->n; i++)
		if (e->v[i].seq % e->stride == 0)
			e->v[kept++] = e->v[i];
	e->n = kept;
}

bool page_events_add(struct page_events *e, const struct page_event *ev)
{
	if (ev->seq % e->stride)
		return true;
	while (e->n >= e->max)
		thin(e);
	if (ev->seq % e->stride)
		return true;
	return vec_push(e->v, e->n, e->cap, *ev);
}

struct encoder {
	struct page_bytes *out;
	bool numbered;
	uint64_t seq, ns;
	uint64_t seen[PAGE_SERIES];
	size_t n;
};

static bool encode_one(struct encoder *c, const struct page_event *ev, bool detail)
{
	uint64_t *seen = &c->seen[ev->series % PAGE_SERIES], from = *seen;
	unsigned int flags = ev->flags & (PAGE_EV_OLD | PAGE_EV_NEW | PAGE_EV_UNCERTAIN);
	bool ok = true;

	if (flags & PAGE_EV_OLD && ev->old_value == *seen)
		flags |= PAGE_EV_AS_SEEN;
	flags |= detail ? PAGE_EV_DETAIL : 0;
	if (c->numbered)
		ok = page_bytes_number(c->out, ev->seq - c->seq);
	ok = ok && page_bytes_number(c->out, ev->ns - c->ns) &&
	     page_bytes_number(c->out, (uint64_t)ev->what << PAGE_EV_BITS | flags);
	if (flags & PAGE_EV_OLD) {
		from = ev->old_value;
		if (!(flags & PAGE_EV_AS_SEEN))
			ok = ok && page_bytes_number(c->out, ev->old_value ^ *seen);
		*seen = ev->old_value;
	}
	if (flags & PAGE_EV_NEW) {
		ok = ok && page_bytes_number(c->out, ev->new_value ^ from);
		*seen = ev->new_value;
	}
	c->seq = ev->seq;
	c->ns = ev->ns;
	c->n++;
	return ok;
}

/* Both lists, merged. */
static bool encode(const struct page_events *e, const struct page_event *extra, size_t nextra,
		   struct encoder *c)
{
	size_t i = 0, k = 0;
	bool ok = true;

	while (ok && (i < e->n || k < nextra)) {
		bool detail = k < nextra && (i >= e->n || extra[k].seq <= e->v[i].seq);

		i += i < e->n && (!detail || extra[k].seq == e->v[i].seq);
		ok = encode_one(c, detail ? &extra[k] : &e->v[i - 1], detail);
		k += detail;
	}
	return ok;
}

bool page_events_encode(struct page_events *e, const struct page_event *extra, size_t nextra, size_t max,
			struct page_bytes *ret, size_t *n)
{
	*ret = (struct page_bytes){ 0 };
	for (;;) {
		struct encoder *c = calloc(1, sizeof(*c));
		bool ok = c != NULL;

		if (c) {
			c->out = ret;
			c->numbered = e->stride > 1;
			ok = encode(e, extra, nextra, c);
			*n = c->n;
		}
		free(c);
		if (ok && (ret->n <= max || e->n <= 1))
			return true;
		free(ret->v);
		*ret = (struct page_bytes){ 0 };
		if (!ok)
			return false;
		thin(e);
	}
}
