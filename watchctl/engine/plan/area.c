#include "watchctl/engine/plan/area.h"

#include <string.h>

static bool inside(const struct wire_memory *m, uint64_t offset, size_t len)
{
	return offset <= m->size && len <= m->size - offset;
}

static bool read_memory(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct wire_memory *m = ctx;

	if (!inside(m, offset, len))
		return false;
	memcpy(buf, m->base + offset, len);
	return true;
}

static bool write_memory(void *ctx, uint64_t offset, const void *buf, size_t len)
{
	struct wire_memory *m = ctx;

	if (!inside(m, offset, len))
		return false;
	memcpy(m->base + offset, buf, len);
	return true;
}

struct wire_area wire_area_in(struct wire_memory *m)
{
	return (struct wire_area){ .read = read_memory, .write = write_memory, .ctx = m, .mapped = m->base };
}
