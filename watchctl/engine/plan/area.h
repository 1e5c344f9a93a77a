/*
 * area - where the tables and the ring of handler/wire.h lie: in the target, in maps of the kernel, or in
 * memory of our own. Offsets are those of wire.h, from the control block.
 */
#ifndef WATCHCTL_ENGINE_PLAN_AREA_H
#define WATCHCTL_ENGINE_PLAN_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct wire_area {
	/* False: the memory cannot be reached any more, or nothing lies there. */
	bool (*read)(void *ctx, uint64_t offset, void *buf, size_t len);
	bool (*write)(void *ctx, uint64_t offset, const void *buf, size_t len);
	void *ctx;
	void *mapped; /* the whole of it in our own memory; NULL: only by the two functions */
};

struct wire_memory {
	uint8_t *base;
	size_t size;
};

/* An area in memory of ours. @m must outlive it. */
struct wire_area wire_area_in(struct wire_memory *m);

#endif
