/* tracelog_put - the pieces of an event's fields, as bytes. Inside of the encoder. */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_PUT_H
#define WATCHCTL_TRACE_LOG_TRACELOG_PUT_H

#include <string.h>

#include "watchctl/trace/log/tracelog_encode.h"
#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/log/tracelog_wire.h"

static inline void put_u8(struct encoder *c, uint8_t v)
{
	encode_bytes(c, &v, sizeof(v));
}

static inline void put_u16(struct encoder *c, uint16_t v)
{
	encode_bytes(c, &v, sizeof(v));
}

static inline void put_u32(struct encoder *c, uint32_t v)
{
	encode_bytes(c, &v, sizeof(v));
}

static inline void put_u64(struct encoder *c, uint64_t v)
{
	encode_bytes(c, &v, sizeof(v));
}

/* NULL is stored as the empty string; what is longer than @max is cut. */
static inline void put_bounded(struct encoder *c, const char *s, size_t max)
{
	size_t n = s ? strlen(s) : 0;

	encode_bytes(c, s, n < max ? n : max);
	put_u8(c, 0);
}

static inline void put_string(struct encoder *c, const char *s)
{
	put_bounded(c, s, TRACELOG_STRING_MAX);
}

#define DEFINE_PUT(wire, stored, type)                           \
	static inline void put_##wire(struct encoder *c, type v) \
	{                                                        \
		encode_bytes(c, &v, sizeof(v));                  \
	}
#define DEFINE_PUT_ENUM(wire, least, most) DEFINE_PUT(wire, u8, uint8_t)

LOG_NUMBERS(DEFINE_PUT)
LOG_ENUMS(DEFINE_PUT_ENUM)
DEFINE_PUT(flag, u8, bool)
DEFINE_PUT(withheld, u8, uint8_t)

static inline void put_optional(struct encoder *c, const char *s)
{
	put_string(c, s);
}

static inline void put_name(struct encoder *c, const char *s)
{
	put_bounded(c, s, NAME_MAX_BYTES);
}

static inline void put_optional_name(struct encoder *c, const char *s)
{
	put_name(c, s);
}

static inline void put_regs(struct encoder *c, struct regs regs)
{
	encode_bytes(c, regs.r, sizeof(regs.r));
}

/* In hexadecimal. */
void put_build_id(struct encoder *c, const uint8_t *id, size_t len);

#endif
