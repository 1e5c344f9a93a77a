#include "watchctl/view/table/probe_totals.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

static struct probe_row *row_of(struct probe_totals *t, const struct view_probe_site *s)
{
	struct probe_row *r = map64_get(&t->by_site, s->id);

	if (r)
		return r;
	r = calloc(1, sizeof(*r));
	if (!r || !vec_reserve((void **)&t->v, &t->cap, t->n + 1, sizeof(struct probe_row *)) ||
	    !map64_put(&t->by_site, s->id, r)) {
		free(r);
		t->incomplete = true;
		return NULL;
	}
	r->site = s;
	t->v[t->n++] = r;
	return r;
}

static void on_site(void *ctx, const struct view_probe_site *s, struct view_time time)
{
	(void)time;
	row_of(ctx, s);
}

static void on_probe(void *ctx, const struct view_probe *p)
{
	struct probe_totals *t = ctx;
	struct probe_row *r = row_of(t, p->site);
	const uint64_t tid = (uint64_t)(uint32_t)p->raw->pid << 32 | (uint32_t)p->raw->tid;

	if (!r)
		return;
	r->events++;
	if (r->last_tid != tid + 1 && !map64_put(&r->tids, tid, r))
		t->incomplete = true;
	r->last_tid = tid + 1;
}

struct view probe_totals_view(struct probe_totals *t)
{
	static const struct view_ops ops = { .probe_site = on_site,
					     .probe = on_probe,
					     .probe_total = on_site };

	return (struct view){ .ops = &ops, .ctx = t };
}

bool probe_row_has_total(const struct probe_totals *t, const struct probe_row *r)
{
	return r->site->has_total && !t->is_part;
}

uint64_t probe_row_count(const struct probe_totals *t, const struct probe_row *r)
{
	return probe_row_has_total(t, r) ? r->site->count : r->events;
}

static int compare(uint64_t x, uint64_t y)
{
	return (x > y) - (x < y);
}

static int by_count(const void *a, const void *b, void *totals)
{
	const struct probe_row *const *px = a, *const *py = b;
	const struct probe_row *x = *px, *y = *py;
	const struct probe_totals *t = totals;
	int order = compare(probe_row_count(t, y), probe_row_count(t, x));

	if (!order)
		order = compare(y->events, x->events);
	if (!order)
		order = strcmp(x->site->probe, y->site->probe);
	if (!order)
		order = compare(x->site->ip, y->site->ip);
	return order ? order : compare(x->site->id, y->site->id);
}

static void row_free(struct probe_row *r)
{
	map64_deinit(&r->tids);
	free(r);
}

void probe_totals_sort(struct probe_totals *t)
{
	size_t i, n = 0;

	for (i = 0; i < t->n; i++) {
		if (t->v[i]->events || !t->is_part) {
			t->v[n++] = t->v[i];
			continue;
		}
		map64_put(&t->by_site, t->v[i]->site->id, NULL);
		row_free(t->v[i]);
	}
	t->n = n;
	if (n)
		qsort_r(t->v, n, sizeof(struct probe_row *), by_count, t);
}

void probe_totals_deinit(struct probe_totals *t)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		row_free(t->v[i]);
	free(t->v);
	map64_deinit(&t->by_site);
	*t = (struct probe_totals){ 0 };
}
