#include "watchctl/view/diff/diff_array.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "watchctl/base/vec.h"

#define HUGE_PAGE (2ul << 20)
#define LEAST (2 * HUGE_PAGE) /* of a mapping */

static bool is_mapped(size_t cap, size_t size)
{
	return cap * size >= LEAST;
}

static size_t mapped_len(size_t cap, size_t size)
{
	return (cap * size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
}

/* Addresses of @len bytes from a huge page's beginning on, with no memory behind them yet. NULL: there are none. */
static uint8_t *reserve(size_t len)
{
	uint8_t *p =
		mmap(NULL, len + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before;

	if (p == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)p & (HUGE_PAGE - 1);
	if (before)
		munmap(p, before);
	munmap(p + before + len, HUGE_PAGE - before);
	return p + before;
}

static void *map_new(uint8_t *at, size_t len, void *items, size_t used)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	if (mmap(at, len, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
		return NULL;
	madvise(at, len, MADV_HUGEPAGE);
	if (used)
		memcpy(at, items, used);
	free(items);
	return at;
}

bool diff_array_grow(void **items, size_t *cap, size_t size)
{
	size_t want = *cap ? *cap * 2 : 8, len = mapped_len(want, size);
	uint8_t *at;
	void *bigger;

	if (want > SIZE_MAX / 4 / size)
		return false;
	if (!is_mapped(want, size))
		return vec_reserve(items, cap, want, size);
	at = reserve(len);
	if (!at)
		return false;
	if (is_mapped(*cap, size)) {
		/* In one call: what was moved and what is new must be one mapping, or it does not move again. */
		bigger = mremap(*items, mapped_len(*cap, size), len, MREMAP_MAYMOVE | MREMAP_FIXED, at);
		bigger = bigger == MAP_FAILED ? NULL : bigger;
	} else {
		bigger = map_new(at, len, *items, *cap * size);
	}
	if (!bigger) {
		munmap(at, len);
		return false;
	}
	*items = bigger;
	*cap = want;
	return true;
}

void diff_array_free(void *items, size_t cap, size_t size)
{
	if (items && is_mapped(cap, size))
		munmap(items, mapped_len(cap, size));
	else
		free(items);
}
