#include "watchctl/view/table/sites.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"

static uint64_t sites_mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0xff51afd7ed558ccdu;
	return h ^ h >> 32;
}

static uint64_t hash_of(const struct view_access *a)
{
	const struct location *l = a->location;
	uint64_t h = sites_mix(a->watch->e.id, a->kind | a->origin << 8 | !a->ip << 16);

	if (!l->module)
		return sites_mix(h, a->ip ? a->ip : a->raw->regs.r[WREG_RIP]);
	return sites_mix(hash_text(h, l->module), l->module_offset);
}

static bool same_place(const struct site *s, const struct view_access *a)
{
	const struct location *x = s->location, *y = a->location;

	if (!x->module || !y->module)
		return x->module == y->module && s->ip == (a->ip ? a->ip : a->raw->regs.r[WREG_RIP]);
	return x->module_offset == y->module_offset &&
	       (x->module == y->module || !strcmp(x->module, y->module));
}

static bool is_site(const struct site *s, const struct view_access *a)
{
	return s->watch == a->watch && s->kind == a->kind && s->origin == a->origin && s->after == !a->ip &&
	       same_place(s, a);
}

static struct site *add_site(struct sites *s, const struct view_access *a, uint64_t hash, struct site *chain)
{
	struct site *site = calloc(1, sizeof(*site));

	if (!site)
		return NULL;
	*site = (struct site){
		.next = chain,
		.watch = a->watch,
		.kind = a->kind,
		.origin = a->origin,
		.ip = a->ip ? a->ip : a->raw->regs.r[WREG_RIP],
		.after = !a->ip,
		.location = a->location,
		.insn = a->insn ? strdup(a->insn) : NULL,
		.first = a->time,
	};
	if (!vec_reserve((void **)&s->v, &s->cap, s->n + 1, sizeof(struct site *)) ||
	    !map64_put(&s->index, hash, site)) {
		free(site->insn);
		free(site);
		return NULL;
	}
	s->v[s->n++] = site;
	return site;
}

static struct site *site_of(struct sites *s, const struct view_access *a)
{
	uint64_t hash = hash_of(a);
	struct site *chain = map64_get(&s->index, hash), *site;

	for (site = chain; site; site = site->next)
		if (is_site(site, a))
			return site;
	return add_site(s, a, hash, chain);
}

struct site *sites_count(struct sites *s, const struct view_access *a)
{
	struct site *site = site_of(s, a);
	uint64_t tid;

	if (!site) {
		s->incomplete = true;
		return NULL;
	}
	site->count++;
	if (a->time.mono_ns >= site->last.mono_ns)
		site->last = a->time;
	site->has_old = a->raw->has_old;
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
	if (x->watch->e.id != y->watch->e.id)
		return x->watch->e.id < y->watch->e.id ? -1 : 1;
	if (x->first.mono_ns != y->first.mono_ns)
		return x->first.mono_ns < y->first.mono_ns ? -1 : 1;
	return (x->ip > y->ip) - (x->ip < y->ip);
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
		free(s->v[i]->insn);
		free(s->v[i]);
	}
	free(s->v);
	map64_deinit(&s->index);
	*s = (struct sites){ 0 };
}
