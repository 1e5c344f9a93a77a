/*
 * The way home must know the address before it is known whether anything was mapped there: so we choose it,
 * where nothing is, nor comes by itself: far from all that the kernel places, and by lot. munmap() of nothing
 * does no harm.
 */
#include "watchctl/target/inject/far_map.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "watchctl/base/clock.h"

#define NR_MMAP 9
#define NR_MUNMAP 11
#define PAGE 4096u
#define FAR_START 0x200000000000ull
#define FAR_SIZE 0x300000000000ull
#define TRIES 8u

/* Where nothing is. What comes there meanwhile would have to draw the same lot. */
static bool find_range(const struct layout *l, uint64_t size, uint64_t *ret)
{
	uint64_t random = 0;
	unsigned int i;

	for (i = 0; l && i < TRIES; i++) {
		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
			random = monotonic_ns() * 0x9e3779b97f4a7c15u;
		*ret = FAR_START + random % FAR_SIZE / PAGE * PAGE;
		if (layout_is_free(l, *ret, *ret + size))
			return true;
	}
	return false;
}

struct wc_error *far_map_prepare(struct remote *r, const struct gadgets *g, uint64_t size)
{
	struct remote_undo undo = { .nr = NR_MUNMAP, .len = size };

	if (!find_range(r->layout, size, &undo.addr))
		return remote_use_gadgets(r, g);
	return remote_use_gadgets_undoing(r, g, &undo);
}

struct wc_error *far_map(struct remote *r, uint64_t size, int protection, long *ret)
{
	const uint64_t flags = MAP_PRIVATE | MAP_ANONYMOUS;
	struct wc_error *err = NULL;

	*ret = -EEXIST;
	if (r->undo.len)
		err = remote_syscall(r, NR_MMAP, r->undo.addr, size, (uint64_t)protection,
				     flags | MAP_FIXED_NOREPLACE, (uint64_t)-1, 0, ret);
	if (err || (r->undo.len && *ret == (long)r->undo.addr))
		return err;
	/* Somebody was faster; or a kernel before 4.17, which takes the flag for a wish. */
	remote_keep(r);
	if (*ret != -EEXIST)
		return NULL;
	return remote_syscall(r, NR_MMAP, 0, size, (uint64_t)protection, flags, (uint64_t)-1, 0, ret);
}
