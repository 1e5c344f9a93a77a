/* tracelog_get - takes the pieces of an event's fields from its bytes. Inside of the decoder. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_GET_H
#define WATCHCTL_TRACE_LOG_TRACELOG_GET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "watchctl/code/elf/module.h"

/* Running over the end sets `bad` and yields zeros and "", so that one check at the end is enough. */
struct cursor {
	uint8_t *p, *end;
	bool bad;
};

static inline void get_bytes(struct cursor *c, void *ret, size_t n)
{
	if ((size_t)(c->end - c->p) < n) {
		c->bad = true;
		c->p = c->end;
		memset(ret, 0, n);
		return;
	}
	memcpy(ret, c->p, n);
	c->p += n;
}

static inline uint8_t get_u8(struct cursor *c)
{
	uint8_t v;

	get_bytes(c, &v, sizeof(v));
	return v;
}

static inline uint16_t get_u16(struct cursor *c)
{
	uint16_t v;

	get_bytes(c, &v, sizeof(v));
	return v;
}

static inline uint32_t get_u32(struct cursor *c)
{
	uint32_t v;

	get_bytes(c, &v, sizeof(v));
	return v;
}

static inline uint64_t get_u64(struct cursor *c)
{
	uint64_t v;

	get_bytes(c, &v, sizeof(v));
	return v;
}

/* Logs of a lower minor version end before the fields that were added since. */
static inline bool has_more(const struct cursor *c)
{
	return c->p < c->end;
}

/* Points into the payload. */
char *get_string(struct cursor *c);

/* The writer stores a NULL as "". */
char *get_optional(struct cursor *c);

void get_build_id(struct cursor *c, uint8_t id[BUILD_ID_MAX], uint8_t *len);

#endif
