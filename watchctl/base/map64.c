#include "watchctl/base/map64.h"

#include <stdlib.h>

static uint64_t map64_mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

static struct map64_slot *probe(const struct map64 *m, uint64_t key)
{
	size_t i = map64_mix(key) & (m->cap - 1);

	while (m->slot[i].used && m->slot[i].key != key)
		i = (i + 1) & (m->cap - 1);
	return &m->slot[i];
}

void *map64_get(const struct map64 *m, uint64_t key)
{
	const struct map64_slot *s;

	if (!m->cap)
		return NULL;
	s = probe(m, key);
	return s->used ? s->value : NULL;
}

static bool grow(struct map64 *m)
{
	struct map64 bigger = { .cap = m->cap ? m->cap * 2 : 64 };
	size_t i;

	bigger.slot = calloc(bigger.cap, sizeof(*bigger.slot));
	if (!bigger.slot)
		return false;
	for (i = 0; i < m->cap; i++)
		if (m->slot[i].used)
			*probe(&bigger, m->slot[i].key) = m->slot[i];
	bigger.n = m->n;
	free(m->slot);
	*m = bigger;
	return true;
}

bool map64_put(struct map64 *m, uint64_t key, void *value)
{
	struct map64_slot *s;

	if (m->n * 4 >= m->cap * 3 && !grow(m))
		return false;
	s = probe(m, key);
	if (!s->used)
		m->n++;
	*s = (struct map64_slot){ .key = key, .value = value, .used = true };
	return true;
}

void map64_deinit(struct map64 *m)
{
	free(m->slot);
	*m = (struct map64){ 0 };
}

void map64_deinit_values(struct map64 *m, void (*release)(void *value))
{
	size_t i;

	for (i = 0; i < m->cap; i++)
		if (m->slot[i].used)
			release(m->slot[i].value);
	map64_deinit(m);
}
