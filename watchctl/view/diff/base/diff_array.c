#include "watchctl/view/diff/base/diff_array.h"

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

/* @len bytes from a huge page's beginning on; NULL: there are none. */
static void *map_huge(size_t len)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	/* cppcheck-suppress invalidFunctionArg ; there is no file behind it */
	uint8_t *whole = mmap(NULL, len + HUGE_PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	const size_t before = -(uintptr_t)whole & (HUGE_PAGE - 1);
	uint8_t *at = whole + before;

	if (whole == MAP_FAILED)
		return NULL;
	munmap(at + len, HUGE_PAGE - before);
	if (before)
		munmap(whole, before);
	madvise(at, len, MADV_HUGEPAGE);
	return at;
}

bool diff_array_grow(void **items, size_t *cap, size_t size)
{
	size_t want = *cap ? *cap * 2 : 8, len = mapped_len(want, size);
	void *at;

	if (want > SIZE_MAX / 4 / size)
		return false;
	if (!is_mapped(want, size))
		return vec_reserve(items, cap, want, size);
	at = map_huge(len);
	if (!at)
		return false;
	if (!is_mapped(*cap, size)) {
		if (*items)
			memcpy(at, *items, *cap * size);
		free(*items);
	} else if (mremap(*items, mapped_len(*cap, size), len, MREMAP_MAYMOVE | MREMAP_FIXED, at) ==
		   MAP_FAILED) {
		/* Of one mapping, in one call: one that is made of several does not move again. */
		munmap(at, len);
		return false;
	}
	*items = at;
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
