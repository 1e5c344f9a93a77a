#include "watchctl/engine/perf/perf_ring.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"

static size_t page_size(void)
{
	return (size_t)getpagesize();
}

bool perf_ring_map(struct perf_ring *r, int fd, uint64_t size)
{
	void *at = mmap(NULL, page_size() + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return false;
	*r = (struct perf_ring){ .page = at, .data = (const uint8_t *)at + page_size(), .size = size };
	return true;
}

void perf_ring_unmap(struct perf_ring *r)
{
	if (r->page)
		munmap(r->page, r->size + page_size());
	r->page = NULL;
}

bool perf_ring_next(const struct perf_ring *r, struct perf_event_header *ret)
{
	if (r->tail == r->head)
		return false;
	perf_ring_copy(r, 0, ret, sizeof(*ret));
	return true;
}

void perf_ring_copy(const struct perf_ring *r, size_t offset, void *to, size_t len)
{
	size_t from = (r->tail + offset) & (r->size - 1), first = len < r->size - from ? len : r->size - from;

	memcpy(to, r->data + from, first);
	memcpy((uint8_t *)to + first, r->data, len - first);
}

void perf_ring_skip(struct perf_ring *r, size_t size)
{
	r->tail += size;
	__atomic_store_n(&r->page->data_tail, r->tail, __ATOMIC_RELEASE);
}

/* "0-3,6" */
size_t perf_ring_cpus(int *ret, size_t cap)
{
	scoped(fclosep) FILE *f = fopen("/sys/devices/system/cpu/online", "re");
	int from, to, got;
	size_t n = 0;

	while (f && (got = fscanf(f, "%d-%d", &from, &to)) >= 1) {
		for (to = got == 2 ? to : from; from <= to; from++, n++)
			if (n < cap)
				ret[n] = from;
		if (fgetc(f) != ',')
			break;
	}
	return n;
}
