#include "watchctl/view/diff/diff_pairs.h"

#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/diff/base/diff_hash.h"

/* Threads come with their signals behind them. */
static size_t count_threads(const struct diff_side *s)
{
	return s->nthreads / 2;
}

static struct diff_thread *thread_at(const struct diff_side *s, size_t i)
{
	return s->thread[2 * i];
}

static bool add_pair(struct diff_compare *c, size_t a, size_t b)
{
	int k;

	for (k = 0; k < 2; k++) {
		struct diff_threads p = {
			.a = a == SIZE_MAX ? NULL : c->a->thread[2 * a + k],
			.b = b == SIZE_MAX ? NULL : c->b->thread[2 * b + k],
		};

		if (!vec_push(c->pair, c->npairs, c->pairs_cap, p))
			return false;
	}
	return true;
}

/* Chains of a's threads that have the same key. */
struct chains {
	struct map64 first; /* key -> index + 1 */
	size_t *next;	    /* index -> index + 1 of the next one with its key */
	bool *taken;
};

static bool build(struct chains *h, const struct diff_side *s, uint64_t (*key)(const struct diff_thread *t))
{
	size_t i;

	map64_deinit(&h->first);
	for (i = count_threads(s); i-- > 0;) {
		uint64_t k = key(thread_at(s, i));

		h->next[i] = (uintptr_t)map64_get(&h->first, k);
		if (!map64_put(&h->first, k, (void *)(uintptr_t)(i + 1)))
			return false;
	}
	return true;
}

static size_t diff_pairs_take(struct chains *h, uint64_t key)
{
	size_t i = (uintptr_t)map64_get(&h->first, key);

	while (i && h->taken[i - 1])
		i = h->next[i - 1];
	/* The next search begins behind it. False for lack of memory cannot be: the key is there. */
	if (i)
		map64_put(&h->first, key, (void *)(uintptr_t)i);
	if (!i)
		return SIZE_MAX;
	h->taken[i - 1] = true;
	return i - 1;
}

static uint64_t same_work(const struct diff_thread *t)
{
	return diff_mix(t->group, t->strong);
}

static uint64_t same_number(const struct diff_thread *t)
{
	return t->key;
}

static uint64_t same_place(const struct diff_thread *t)
{
	return t->group;
}

/* Where it was created is not known: what it does is, at least where it begins. */
static uint64_t same_start(const struct diff_thread *t)
{
	return diff_mix(t->n ? diff_kind_of(t, 0)->key : 0, 5);
}

bool diff_pair_threads(struct diff_compare *c)
{
	static uint64_t (*const keys[])(const struct diff_thread *) = { same_work, same_number, same_place,
									same_start };
	size_t na = count_threads(c->a), nb = count_threads(c->b), i, k;
	scoped(freep) size_t *next = calloc(na + 1, sizeof(*next)), *mate = malloc((nb + 1) * sizeof(*mate));
	scoped(freep) bool *taken = calloc(na + 1, sizeof(*taken));
	struct chains h = { .next = next, .taken = taken };
	bool ok = next && mate && taken;

	for (i = 0; ok && i < nb; i++)
		mate[i] = SIZE_MAX;
	for (k = 0; ok && k < sizeof(keys) / sizeof(*keys); k++) {
		ok = build(&h, c->a, keys[k]);
		for (i = 0; ok && i < nb; i++)
			if (mate[i] == SIZE_MAX)
				mate[i] = diff_pairs_take(&h, keys[k](thread_at(c->b, i)));
	}
	for (i = 0; ok && i < nb; i++)
		ok = add_pair(c, mate[i], i);
	for (i = 0; ok && i < na; i++)
		if (!taken[i])
			ok = add_pair(c, i, SIZE_MAX);
	map64_deinit(&h.first);
	return ok;
}
