/* memory_view - how to read some program's memory, wherever its bytes are. */
#ifndef WATCHCTL_CODE_MEMORY_VIEW_H
#define WATCHCTL_CODE_MEMORY_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory_view {
	/* All @len bytes at @addr, or false with @buf unspecified. */
	bool (*read)(void *ctx, uint64_t addr, void *buf, size_t len);
	void *ctx;
};

static inline bool memory_read(const struct memory_view *m, uint64_t addr, void *buf, size_t len)
{
	return m->read(m->ctx, addr, buf, len);
}

#endif
