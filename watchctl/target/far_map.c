/*
 * The way home must know the address before it is known whether anything was mapped there: so we choose it,
 * where nothing is, nor comes by itself: far from all that the kernel places, and by lot. munmap() of nothing
 * does no harm.
 */
#include "watchctl/target/far_map.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "watchctl/base/clock.h"
#include "watchctl/target/proc.h"

#define NR_MMAP 9
#define NR_MUNMAP 11
#define PAGE 4096u
#define FAR_START 0x200000000000ull
#define FAR_SIZE 0x300000000000ull
#define TRIES 8u

struct range {
	uint64_t start, end;
	bool is_free;
};

static bool is_elsewhere(void *ctx, const struct proc_map *m)
{
	struct range *r = ctx;

	r->is_free = m->end <= r->start || m->start >= r->end;
	return r->is_free;
}

static bool find_range(pid_t pid, uint64_t size, uint64_t *ret)
{
	uint64_t random = 0;
	unsigned int i;

	for (i = 0; i < TRIES; i++) {
		struct range r = { 0 };

		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
			random = monotonic_ns() * 0x9e3779b97f4a7c15u;
		r.start = FAR_START + random % FAR_SIZE / PAGE * PAGE;
		r.end = r.start + size;
		if (!proc_maps(pid, is_elsewhere, &r))
			return false;
		*ret = r.start;
		if (r.is_free)
			return true;
	}
	return false;
}

struct wc_error *far_map_prepare(struct remote *r, const struct gadgets *g, uint64_t size)
{
	struct remote_undo undo = { .nr = NR_MUNMAP, .len = size };

	if (!find_range(r->thread.pid, size, &undo.addr))
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
