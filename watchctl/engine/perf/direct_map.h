/*
 * direct_map - where the kernel has mapped all of the machine's memory for itself (Documentation/arch/x86/
 * x86_64/mm.rst, "direct mapping of all physical memory"), and how its page tables are to be read. The place
 * is random at each boot, and no interface reports it; it is found by trying, and believed only once a page of
 * ours, with random content, was seen there.
 */
#ifndef WATCHCTL_ENGINE_PERF_DIRECT_MAP_H
#define WATCHCTL_ENGINE_PERF_DIRECT_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/code/memory_view.h"

struct direct_map {
	uint64_t base;	     /* physical address 0 */
	uint64_t frame_mask; /* of a page table entry: the physical address in it */
	uint32_t levels;     /* of page tables: 4 or 5 */
};

/* @kernel reads the kernel's memory; @page_table: of this process, as the kernel addresses it. */
bool direct_map_find(const struct memory_view *kernel, uint64_t page_table, struct direct_map *ret);

#endif
