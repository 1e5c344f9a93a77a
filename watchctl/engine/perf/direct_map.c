#include "watchctl/engine/perf/direct_map.h"

#include <cpuid.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "watchctl/base/cleanup.h"

#define PAGE 4096u
#define STEP (1ull << 30) /* the base is a multiple of it: arch/x86/mm/kaslr.c */
#define PATTERN 64u
#define PRESENT 1u
#define HUGE 0x80u
#define KERNEL_HALF (1ull << 63)

/*
 * Bits 12 to 51 of an entry, less the one that says that the page is encrypted, on machines that have it
 * (AMD64 Architecture Programmer's Manual vol. 3, CPUID 8000_001F, EBX).
 */
static uint64_t frame_mask(void)
{
	uint64_t mask = ((1ull << 52) - 1) & ~(uint64_t)(PAGE - 1);
	unsigned int a, b, c, d;

	if (__get_cpuid_count(0x8000001f, 0, &a, &b, &c, &d) && (a & 3))
		mask &= ~(1ull << (b & 63));
	return mask;
}

/* The end of the machine's memory; 0: cannot be known. */
static uint64_t memory_end(void)
{
	scoped(fclosep) FILE *f = fopen("/proc/zoneinfo", "re");
	unsigned long long spanned = 0, start, end = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, " spanned %llu", &spanned) == 1)
			continue;
		if (sscanf(line, " start_pfn: %llu", &start) == 1 && start + spanned > end)
			end = start + spanned;
	}
	return end * PAGE;
}

/* As the processor goes. 0: not mapped, or @m is wrong. */
static uint64_t translate(const struct memory_view *kernel, const struct direct_map *m, uint64_t table,
			  uint64_t addr, uint64_t end)
{
	unsigned int shift;

	for (shift = 3 + 9 * m->levels; shift >= 12; shift -= 9) {
		uint64_t entry, inside = (1ull << shift) - 1;

		if (!memory_read(kernel, table + 8 * (addr >> shift & 511), &entry, sizeof(entry)) ||
		    !(entry & PRESENT) || (entry & m->frame_mask) >= end)
			return 0;
		if (shift == 12 || (shift <= 30 && (entry & HUGE)))
			return m->base + (entry & m->frame_mask & ~inside) + (addr & inside);
		table = m->base + (entry & m->frame_mask);
	}
	return 0;
}

static bool is_it(const struct memory_view *kernel, const struct direct_map *m, uint64_t table,
		  const uint8_t *page, uint64_t end)
{
	uint64_t at = translate(kernel, m, table, (uint64_t)(uintptr_t)page, end);
	uint8_t seen[PATTERN];

	return at && memory_read(kernel, at, seen, sizeof(seen)) && !memcmp(seen, page, sizeof(seen));
}

/*
 * The page table is itself in that mapping, no further up than memory goes. Tried from the lowest place: then
 * a wrong guess reads memory, or nothing; never what lies above, where devices are mapped.
 */
static bool direct_map_search(const struct memory_view *kernel, uint64_t table, const uint8_t *page,
			      struct direct_map *ret)
{
	uint64_t end = memory_end(), highest = table & ~(STEP - 1);
	struct direct_map m = { .base = (table - end) & ~(STEP - 1), .frame_mask = frame_mask() };

	if (!end || !(m.base & KERNEL_HALF))
		return false;
	for (; m.base <= highest; m.base += STEP) {
		for (m.levels = 4; m.levels <= 5; m.levels++) {
			if (!is_it(kernel, &m, table, page, end))
				continue;
			*ret = m;
			return true;
		}
	}
	return false;
}

bool direct_map_find(const struct memory_view *kernel, uint64_t page_table, struct direct_map *ret)
{
	scoped(freep) uint8_t *page = aligned_alloc(PAGE, PAGE);
	bool found;

	if (!page || !(page_table & KERNEL_HALF) || getrandom(page, PATTERN, 0) != PATTERN ||
	    mlock(page, PAGE))
		return false;
	found = direct_map_search(kernel, page_table, page, ret);
	munlock(page, PAGE);
	return found;
}
