#include "watchctl/engine/plan/range_plan.h"

#define NEVER UINT32_MAX

/* The register of @size bytes that holds the byte at @addr, asked for up to @end. */
static struct range_part part_at(uint64_t addr, uint64_t end, uint32_t size)
{
	struct range_part p = { .addr = addr & ~(uint64_t)(size - 1), .size = size, .want_addr = addr };
	uint64_t stop = p.addr + size < end ? p.addr + size : end;

	p.want_size = (uint32_t)(stop - addr);
	return p;
}

/*
 * Bytes beside those asked for, when [addr, end) is covered with at most @registers; NEVER: it cannot be. The
 * parts go to @ret, their number to *@n. At most four registers deep, four sizes wide.
 */
static uint32_t cover(uint64_t addr, uint64_t end, unsigned int registers, struct range_part *ret,
		      unsigned int *n)
{
	struct range_part rest[RANGE_PARTS];
	uint32_t best = NEVER, size;
	unsigned int best_n = 0;

	*n = 0;
	if (addr == end)
		return 0;
	if (!registers)
		return NEVER;
	for (size = 8; size; size /= 2) {
		struct range_part p = part_at(addr, end, size);
		unsigned int more;
		uint32_t beside = cover(addr + p.want_size, end, registers - 1, rest, &more);

		if (beside == NEVER)
			continue;
		beside += size - p.want_size;
		if (beside > best || (beside == best && more + 1 >= best_n))
			continue;
		best = beside;
		best_n = more + 1;
		ret[0] = p;
		for (unsigned int i = 0; i < more; i++)
			ret[i + 1] = rest[i];
	}
	*n = best_n;
	return best;
}

unsigned int range_plan(uint64_t addr, uint64_t len, unsigned int registers, struct range_part *ret)
{
	struct range_part parts[RANGE_PARTS];
	unsigned int n, i;

	if (!len || len > RANGE_MAX || addr + len < addr || registers > RANGE_PARTS ||
	    cover(addr, addr + len, registers, parts, &n) == NEVER)
		return 0;
	for (i = 0; i < n; i++)
		ret[i] = parts[i];
	return n;
}

unsigned int range_registers(uint64_t addr, uint64_t len)
{
	struct range_part parts[RANGE_PARTS];
	unsigned int registers;

	for (registers = 1; registers <= RANGE_PARTS; registers++)
		if (range_plan(addr, len, registers, parts))
			return registers;
	return 0;
}

uint32_t range_longest(uint64_t addr, unsigned int registers)
{
	return registers ? 8 * registers - (uint32_t)(addr & 7) : 0;
}
