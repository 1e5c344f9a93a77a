/*
 * hash - FNV-1a, for tables in memory, and of inputs in logs (event.h): no defence against chosen input.
 */
#ifndef WATCHCTL_BASE_HASH_H
#define WATCHCTL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_START 0xcbf29ce484222325u

/* Goes on from @h: HASH_START, or what was returned for what comes before. */
static inline uint64_t hash_bytes(uint64_t h, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	while (n--)
		h = (h ^ *p++) * 0x100000001b3u;
	return h;
}

static inline uint64_t hash_text(uint64_t h, const char *s)
{
	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3u;
	return h;
}

#endif
