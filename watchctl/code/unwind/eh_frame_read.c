#include "watchctl/code/unwind/eh_frame_read.h"

uint64_t eh_get_leb(struct cursor *c, bool is_signed)
{
	uint64_t v = 0;
	unsigned int shift;

	for (shift = 0; shift < 70; shift += 7) {
		uint64_t byte = get_fixed(c, 1);

		if (shift < 64)
			v |= (byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (is_signed && byte & 0x40 && shift < 57)
			v |= ~0ull << (shift + 7);
		return v;
	}
	c->bad = true;
	return 0;
}

unsigned int eh_encoded_size(uint8_t encoding)
{
	switch (encoding & 0x07) {
	case PE_ABSPTR:
	case PE_UDATA8:
		return 8;
	case PE_UDATA4:
		return 4;
	case PE_UDATA2:
		return 2;
	default:
		return 0;
	}
}

uint64_t eh_get_encoded(struct cursor *c, uint8_t encoding, uint64_t data)
{
	unsigned int size = eh_encoded_size(encoding);
	uint64_t base, v, place = c->at;

	switch (encoding & 0xf0) {
	case PE_ABSPTR:
		base = 0;
		break;
	case PE_PCREL:
		base = place;
		break;
	case PE_DATAREL:
		base = data;
		break;
	default:
		size = 0;
		base = 0;
	}
	if (!size) {
		c->bad = true;
		return 0;
	}
	v = get_fixed(c, size);
	if (encoding & PE_SIGNED && size < 8 && v >> (8 * size - 1))
		v |= ~0ull << (8 * size);
	return base + v;
}
