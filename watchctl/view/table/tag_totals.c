#include "watchctl/view/table/tag_totals.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

#define RATE_MIN_NS 1000000 /* less says nothing about a second */

static struct tag_row *row_of(struct tag_totals *t, const struct view_capture *c)
{
	struct tag_row *r = map64_get(&t->by_tag, c->tag->id);

	if (r)
		return r;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->tag = c->tag;
	r->first = c->time;
	r->first_tid = (uint64_t)(uint32_t)c->raw->pid << 32 | (uint32_t)c->raw->tid;
	if (!vec_reserve((void **)&t->v, &t->cap, t->n + 1, sizeof(struct tag_row *)) ||
	    !map64_put(&t->by_tag, c->tag->id, r)) {
		free(r);
		return NULL;
	}
	t->v[t->n++] = r;
	return r;
}

static bool same_place(const struct view_frame *a, const struct view_frame *b)
{
	if (!a->module || !b->module)
		return a->module == b->module && a->ip == b->ip;
	return a->module_offset == b->module_offset &&
	       (a->module == b->module || !strcmp(a->module, b->module));
}

static struct tag_place *add_place(struct tag_totals *t, struct tag_row *r, const struct view_capture *c,
				   uint64_t hash)
{
	struct tag_place *place = calloc(1, sizeof(*place));
	size_t real = 0;

	if (!place)
		return NULL;
	while (real + 1 < c->nframes && c->frame[real].inlined)
		real++;
	*place = (struct tag_place){
		.next = r->place,
		.same_hash = map64_get(&t->places, hash),
		.tag = c->tag,
		.source = c->frame[0],
		.frame = c->frame[real],
	};
	if (!map64_put(&t->places, hash, place)) {
		free(place);
		return NULL;
	}
	r->place = place;
	r->nplaces++;
	return place;
}

static bool count_place(struct tag_totals *t, struct tag_row *r, const struct view_capture *c)
{
	const struct view_frame *f = c->frame;
	struct tag_place *place;
	uint64_t hash;

	if (!c->nframes)
		return true;
	hash = ((f->module ? f->module_offset : f->ip) ^ (uint64_t)c->tag->id << 40) * 0xff51afd7ed558ccdu;
	for (place = map64_get(&t->places, hash); place; place = place->same_hash)
		if (place->tag == c->tag && same_place(&place->frame, f))
			break;
	if (!place)
		place = add_place(t, r, c, hash);
	if (!place)
		return false;
	place->count++;
	return true;
}

static bool count_thread(struct tag_row *r, const struct view_capture *c)
{
	uint64_t tid = (uint64_t)(uint32_t)c->raw->pid << 32 | (uint32_t)c->raw->tid;

	return tid == r->first_tid || map64_put(&r->tids, tid, r);
}

static bool count_value(struct tag_row *r, const struct view_capture *c)
{
	if (!c->raw->has_value)
		return true;
	if (!r->values)
		r->values = calloc(1, sizeof(*r->values));
	if (!r->values)
		return false;
	value_spread_add(r->values, c->raw->value);
	return true;
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct tag_totals *t = ctx;
	struct tag_row *r = row_of(t, c);

	if (!r) {
		t->incomplete = true;
		return;
	}
	r->count++;
	if (c->time.mono_ns < r->first.mono_ns)
		r->first = c->time;
	if (c->time.mono_ns >= r->last.mono_ns)
		r->last = c->time;
	if (!count_place(t, r, c) || !count_thread(r, c) || !count_value(r, c))
		t->incomplete = true;
}

struct view tag_totals_view(struct tag_totals *t)
{
	static const struct view_ops ops = { .capture = on_capture };

	return (struct view){ .ops = &ops, .ctx = t };
}

size_t tag_row_threads(const struct tag_row *r)
{
	return r->tids.n + 1;
}

double tag_row_rate(const struct tag_row *r)
{
	uint64_t ns = r->last.mono_ns - r->first.mono_ns;

	return r->count > 1 && ns >= RATE_MIN_NS ? (double)(r->count - 1) * 1e9 / (double)ns : 0;
}

static int by_count(const void *a, const void *b)
{
	const struct tag_row *const *px = a, *const *py = b;
	const struct tag_row *x = *px, *y = *py;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return (x->tag->id > y->tag->id) - (x->tag->id < y->tag->id);
}

static bool is_before(const struct tag_place *x, const struct tag_place *y)
{
	if (x->count != y->count)
		return x->count > y->count;
	return x->frame.module_offset < y->frame.module_offset;
}

static void bring_most_frequent_first(struct tag_row *r)
{
	struct tag_place **best = &r->place, **at, *place;

	for (at = &r->place; *at; at = &(*at)->next)
		if (is_before(*at, *best))
			best = at;
	place = *best;
	if (!place)
		return;
	*best = place->next;
	place->next = r->place;
	r->place = place;
}

void tag_totals_sort(struct tag_totals *t)
{
	size_t i;

	if (t->n)
		qsort(t->v, t->n, sizeof(struct tag_row *), by_count);
	for (i = 0; i < t->n; i++)
		bring_most_frequent_first(t->v[i]);
}

void tag_totals_deinit(struct tag_totals *t)
{
	struct tag_place *place;
	size_t i;

	for (i = 0; i < t->n; i++) {
		while ((place = t->v[i]->place)) {
			t->v[i]->place = place->next;
			free(place);
		}
		map64_deinit(&t->v[i]->tids);
		free(t->v[i]->values);
		free(t->v[i]);
	}
	free(t->v);
	map64_deinit(&t->by_tag);
	map64_deinit(&t->places);
	*t = (struct tag_totals){ 0 };
}
