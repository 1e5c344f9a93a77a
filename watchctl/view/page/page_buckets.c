#include "watchctl/view/page/page_buckets.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_WIDTH_NS 1024

bool page_buckets_init(struct page_buckets *b, size_t cap)
{
	*b = (struct page_buckets){ .cap = cap };
	b->v = calloc(cap, sizeof(*b->v));
	return b->v != NULL;
}

void page_buckets_deinit(struct page_buckets *b)
{
	free(b->v);
	*b = (struct page_buckets){ 0 };
}

bool page_value_less(const struct value_type *t, unsigned int size, uint64_t a, uint64_t b)
{
	struct value_number x = value_to_number(t, size, a), y = value_to_number(t, size, b);

	if (x.kind == NUMBER_FLOAT)
		return x.f < y.f;
	return x.kind == NUMBER_SIGNED ? x.i < y.i : x.u < y.u;
}

/* @b comes right after @a in time. */
static void page_buckets_join(struct page_bucket *a, const struct page_bucket *b, const struct page_sample *s)
{
	size_t i;

	for (i = 0; i < PAGE_KINDS; i++)
		a->n[i] += b->n[i];
	a->changes += b->changes;
	if (!b->has_value)
		return;
	if (!a->has_value) {
		a->has_value = true;
		a->first = b->first;
		a->min = b->min;
		a->max = b->max;
	}
	a->last = b->last;
	if (page_value_less(s->type, s->size, b->min, a->min))
		a->min = b->min;
	if (page_value_less(s->type, s->size, a->max, b->max))
		a->max = b->max;
}

static void double_width(struct page_buckets *b, const struct page_sample *s)
{
	size_t i;

	for (i = 0; i < b->n; i++) {
		if (i & 1)
			page_buckets_join(&b->v[i / 2], &b->v[i], s);
		else if (i)
			b->v[i / 2] = b->v[i];
	}
	b->n = (b->n + 1) / 2;
	memset(&b->v[b->n], 0, (b->cap - b->n) * sizeof(*b->v));
	b->width_ns *= 2;
}

void page_buckets_add(struct page_buckets *b, uint64_t ns, const struct page_sample *s)
{
	struct page_bucket one = { .changes = s->changes,
				   .has_value = s->has_value,
				   .first = s->value,
				   .last = s->value,
				   .min = s->value,
				   .max = s->value };
	size_t at;

	if (!b->width_ns)
		b->width_ns = FIRST_WIDTH_NS;
	while (ns / b->width_ns >= b->cap)
		double_width(b, s);
	at = ns / b->width_ns;
	if (at >= b->n)
		b->n = at + 1;
	one.n[s->kind < PAGE_KINDS ? s->kind : 0] = 1;
	page_buckets_join(&b->v[at], &one, s);
}
