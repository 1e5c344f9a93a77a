#include "watchctl/view/table/sites.h"

#include <stdlib.h>

#include "watchctl/base/vec.h"

static struct site *add_site(struct sites *s, const struct view_access *a)
{
	struct site *site = calloc(1, sizeof(*site));

	if (!site || !vec_reserve((void **)&s->v, &s->cap, s->n + 1, sizeof(struct site *)) ||
	    !site_index_add(&s->index, a, &site->key)) {
		free(site);
		return NULL;
	}
	site->first = a->time;
	s->v[s->n++] = site;
	return site;
}

struct site *sites_count(struct sites *s, const struct view_access *a)
{
	struct site *site = (struct site *)site_index_find(&s->index, a);
	uint64_t tid;

	if (!site)
		site = add_site(s, a);
	if (!site) {
		s->incomplete = true;
		return NULL;
	}
	site->count++;
	if (a->time.mono_ns >= site->last.mono_ns)
		site->last = a->time;
	site->has_old = a->raw->has_old;
	site->old_uncertain = a->raw->old_uncertain;
	site->has_new = a->raw->has_new;
	site->withheld = a->raw->withheld & WITHHELD_VALUES;
	site->old_value = a->raw->old_value;
	site->new_value = a->raw->new_value;

	tid = (uint64_t)(uint32_t)a->raw->pid << 32 | (uint32_t)a->raw->tid;
	if (site->last_tid != tid + 1 && !map64_put(&site->tids, tid, site))
		s->incomplete = true;
	site->last_tid = tid + 1;
	return site;
}

static void on_access(void *ctx, const struct view_access *a)
{
	sites_count(ctx, a);
}

struct view sites_view(struct sites *s)
{
	static const struct view_ops ops = { .access = on_access };

	return (struct view){ .ops = &ops, .ctx = s };
}

static int by_count(const void *a, const void *b)
{
	const struct site *const *px = a, *const *py = b;
	const struct site *x = *px, *y = *py;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	if (x->key.watch->e.id != y->key.watch->e.id)
		return x->key.watch->e.id < y->key.watch->e.id ? -1 : 1;
	if (x->first.mono_ns != y->first.mono_ns)
		return x->first.mono_ns < y->first.mono_ns ? -1 : 1;
	return (x->key.ip > y->key.ip) - (x->key.ip < y->key.ip);
}

void sites_sort(struct sites *s)
{
	if (s->n)
		qsort(s->v, s->n, sizeof(struct site *), by_count);
}

void sites_deinit(struct sites *s)
{
	size_t i;

	for (i = 0; i < s->n; i++) {
		map64_deinit(&s->v[i]->tids);
		free(s->v[i]->key.insn);
		free(s->v[i]);
	}
	free(s->v);
	site_index_deinit(&s->index);
	*s = (struct sites){ 0 };
}
