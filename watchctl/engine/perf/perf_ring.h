/*
 * perf_ring - the memory that the kernel and we share with a perf event: it writes records, we take them out,
 * in the order in which they were written. What a record holds is its reader's business.
 */
#ifndef WATCHCTL_ENGINE_PERF_PERF_RING_H
#define WATCHCTL_ENGINE_PERF_PERF_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/perf_event.h>

#define PERF_RING_MIN 4096u	    /* bytes of records, at least */
#define PERF_RING_RECORD_MAX 65536u /* a record's size is a 16-bit number */

struct perf_ring {
	struct perf_event_mmap_page *page; /* NULL: not mapped */
	const uint8_t *data;
	uint64_t size; /* of data, a power of two */
	uint64_t tail, head;
};

/* The ring of event @fd, of @size bytes. False: not granted (errno). */
bool perf_ring_map(struct perf_ring *r, int fd, uint64_t size);
void perf_ring_unmap(struct perf_ring *r); /* accepts zero-initialised */

/* Whether something was written that perf_ring_look() has not seen. */
static inline bool perf_ring_has_news(const struct perf_ring *r)
{
	return __atomic_load_n(&r->page->data_head, __ATOMIC_RELAXED) != r->head;
}

/* What is there now is what the functions below deal with. */
static inline void perf_ring_look(struct perf_ring *r)
{
	r->head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
}

/* The header of the next record. False: there is none. */
bool perf_ring_next(const struct perf_ring *r, struct perf_event_header *ret);

/* @len bytes of the next record, from @offset on. */
void perf_ring_copy(const struct perf_ring *r, size_t offset, void *to, size_t len);

/* The numbers of the CPUs that are on now, at most @cap of them in @ret. Returns how many there are. */
size_t perf_ring_cpus(int *ret, size_t cap);

/* The next record, of @size bytes, is done with: the kernel may write there. */
void perf_ring_skip(struct perf_ring *r, size_t size);

#endif
