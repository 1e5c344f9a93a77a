/*
 * eh_frame_read - the numbers of .eh_frame, read within bounds; private to eh_frame.
 *
 * A cursor stays within its range and remembers when it could not: after that it reads zeros. Callers look
 * once, when they are through.
 */
#ifndef WATCHCTL_CODE_UNWIND_EH_FRAME_READ_H
#define WATCHCTL_CODE_UNWIND_EH_FRAME_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/unwind/eh_frame.h"

/* DW_EH_PE_*: how an address is written. */
enum {
	PE_ABSPTR = 0x00,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SIGNED = 0x08,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_INDIRECT = 0x80,
	PE_OMIT = 0xff,
};

struct cursor {
	const struct eh_range *range;
	uint64_t at, end; /* within the range */
	bool bad;	  /* something was to be read that is not there */
};

static inline struct cursor cursor_at(const struct eh_range *range, uint64_t at)
{
	struct cursor c = { range, at, range->end, at < range->start || at > range->end };

	if (c.bad)
		c.at = c.end;
	return c;
}

static inline uint64_t get_fixed(struct cursor *c, unsigned int size)
{
	const uint8_t *p = c->range->bytes + (c->at - c->range->start);
	uint64_t v = 0;
	unsigned int i;

	if (size > c->end - c->at) {
		c->bad = true;
		return 0;
	}
	for (i = 0; i < size; i++)
		v |= (uint64_t)p[i] << (8 * i);
	c->at += size;
	return v;
}

static inline void skip(struct cursor *c, uint64_t size)
{
	if (size > c->end - c->at)
		c->bad = true;
	else
		c->at += size;
}

/* A LEB128 number; more than the ten bytes that 64 bits take is none. */
uint64_t eh_get_leb(struct cursor *c, bool is_signed);

static inline uint64_t get_uleb(struct cursor *c)
{
	return eh_get_leb(c, false);
}

static inline int64_t get_sleb(struct cursor *c)
{
	return (int64_t)eh_get_leb(c, true);
}

/* Bytes of an address in that encoding; 0: a form that has no fixed size, or none at all. */
unsigned int eh_encoded_size(uint8_t encoding);

/* An address. What it counts from: nothing, its own place, or @data. */
uint64_t eh_get_encoded(struct cursor *c, uint8_t encoding, uint64_t data);

#endif
