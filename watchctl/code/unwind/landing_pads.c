/*
 * The data of a function (Itanium C++ ABI, "Exception Handling Tables"; written by gcc since 2001):
 *
 *	encoding, landing pads' base	omitted: the function's start
 *	encoding, ULEB128		of the type table; omitted: there is none
 *	encoding, ULEB128		of the call sites: how they are written, the length of their table
 *	call site: start, length, landing pad (all from the base; pad 0: none), action as ULEB128
 */
#include "watchctl/code/unwind/landing_pads.h"

#include "watchctl/code/unwind/eh_frame_read.h"

#define PE_ULEB128 0x01

static uint64_t get_number(struct cursor *c, uint8_t encoding)
{
	return encoding == PE_ULEB128 ? get_uleb(c) : eh_get_encoded(c, encoding, 0);
}

void landing_pads_each(const struct eh_range *data, const struct eh_function *f,
		       void (*each)(void *ctx, uint64_t pad), void *ctx)
{
	struct cursor c = cursor_at(data, f->lsda);
	uint64_t base = f->start, length, end;
	uint8_t encoding = (uint8_t)get_fixed(&c, 1);

	if (encoding != PE_OMIT)
		base = eh_get_encoded(&c, encoding, 0);
	if ((uint8_t)get_fixed(&c, 1) != PE_OMIT)
		get_uleb(&c);
	encoding = (uint8_t)get_fixed(&c, 1);
	length = get_uleb(&c);
	if (c.bad || length > c.end - c.at)
		return;
	for (end = c.at + length; c.at < end;) {
		uint64_t pad;

		get_number(&c, encoding);
		get_number(&c, encoding);
		pad = get_number(&c, encoding);
		get_uleb(&c);
		if (c.bad)
			return;
		if (pad)
			each(ctx, base + pad);
	}
}
