/* diff_hash - how diff mixes what it compares into 64 bits. Fast, never stored, no defence against chosen
 * input. */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_HASH_H
#define WATCHCTL_VIEW_DIFF_DIFF_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Goes on from @h with @v; the order counts. */
static inline uint64_t diff_mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

static inline uint64_t diff_mix_bytes(uint64_t h, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;
	uint64_t word;

	h = diff_mix(h, n);
	for (; n >= sizeof(word); n -= sizeof(word), p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		h = diff_mix(h, word);
	}
	word = 0;
	memcpy(&word, p, n);
	return diff_mix(h, word);
}

static inline uint64_t diff_mix_text(uint64_t h, const char *s)
{
	return s ? diff_mix_bytes(h, s, strlen(s)) : diff_mix(h, 1);
}

#endif
