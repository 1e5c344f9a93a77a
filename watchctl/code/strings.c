#include "watchctl/code/strings.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"

#define CHUNK_SIZE (64u << 10)

struct strings_chunk {
	struct strings_chunk *next;
	size_t used, size;
	alignas(8) char bytes[];
};

static void *strings_take(struct strings *s, size_t size)
{
	struct strings_chunk *c = s->chunk;
	void *p;

	size = (size + 7) & ~(size_t)7;
	if (!c || c->size - c->used < size) {
		size_t room = size > CHUNK_SIZE ? size : CHUNK_SIZE;

		c = malloc(sizeof(*c) + room);
		if (!c)
			return NULL;
		*c = (struct strings_chunk){ .next = s->chunk, .size = room };
		s->chunk = c;
	}
	p = c->bytes + c->used;
	c->used += size;
	return p;
}

void *strings_room(struct strings *s, size_t size)
{
	void *p = strings_take(s, size);

	return p ? memset(p, 0, size) : NULL;
}

static uint64_t hash(const char *text)
{
	uint64_t h = hash_text(HASH_START, text);

	return h ^ h >> 32;
}

static const char **strings_find(const struct strings *s, const char *text)
{
	size_t i = hash(text) & (s->cap - 1);

	while (s->slot[i] && strcmp(s->slot[i], text) != 0)
		i = (i + 1) & (s->cap - 1);
	return &s->slot[i];
}

static int grow(struct strings *s)
{
	struct strings bigger = { .cap = s->cap ? 2 * s->cap : 1024 };

	bigger.slot = calloc(bigger.cap, sizeof(*bigger.slot));
	if (!bigger.slot)
		return 0;
	for (size_t i = 0; i < s->cap; i++)
		if (s->slot[i])
			*strings_find(&bigger, s->slot[i]) = s->slot[i];
	free(s->slot);
	s->slot = bigger.slot;
	s->cap = bigger.cap;
	return 1;
}

static const char *strings_add(struct strings *s, const char **slot, const char *text)
{
	size_t len = strlen(text) + 1;
	char *copy = strings_take(s, len);

	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	*slot = copy;
	s->n++;
	return copy;
}

const char *strings_keep(struct strings *s, const char *text)
{
	const char **slot;

	if (!text || (2 * s->n >= s->cap && !grow(s)))
		return NULL;
	slot = strings_find(s, text);
	return *slot ? *slot : strings_add(s, slot, text);
}

void strings_deinit(struct strings *s)
{
	for (struct strings_chunk *c = s->chunk, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(s->slot);
	*s = (struct strings){ 0 };
}
