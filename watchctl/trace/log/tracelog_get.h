/* tracelog_get - takes the pieces of an event's fields from its bytes. Inside of the decoder. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_GET_H
#define WATCHCTL_TRACE_LOG_TRACELOG_GET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/trace/event.h"
#include "watchctl/trace/log/tracelog_wire.h"

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

static inline uint8_t get_between(struct cursor *c, unsigned int least, unsigned int most)
{
	uint8_t v = get_u8(c);

	if (v >= least && v <= most)
		return v;
	c->bad = true;
	return (uint8_t)least;
}

#define DEFINE_GET(wire, stored, type)                  \
	static inline type get_##wire(struct cursor *c) \
	{                                               \
		return (type)get_##stored(c);           \
	}
#define DEFINE_GET_ENUM(wire, least, most)                 \
	static inline uint8_t get_##wire(struct cursor *c) \
	{                                                  \
		return get_between(c, least, most);        \
	}

LOG_NUMBERS(DEFINE_GET)
LOG_ENUMS(DEFINE_GET_ENUM)

static inline bool get_flag(struct cursor *c)
{
	return get_u8(c) != 0;
}

static inline uint8_t get_withheld(struct cursor *c)
{
	return get_u8(c) & (WITHHELD_VALUES | WITHHELD_REGS);
}

static inline char *get_name(struct cursor *c)
{
	return get_string(c);
}

static inline char *get_optional_name(struct cursor *c)
{
	return get_optional(c);
}

static inline struct regs get_regs(struct cursor *c)
{
	struct regs regs = { 0 };

	get_bytes(c, regs.r, sizeof(regs.r));
	return regs;
}

void get_build_id(struct cursor *c, uint8_t id[BUILD_ID_MAX], uint8_t *len);

#endif
