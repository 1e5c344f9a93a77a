#include "watchctl/engine/intake/handler_ring.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_MAX \
	((sizeof(struct wire_record) + 8 * WIRE_FRAMES + sizeof(struct regs) + WIRE_RAW_MAX + 15) & ~15ull)
#define RECORD_HEADER 16u /* commit, size, flags: also what a padding record has */

bool ring_init(struct ring *r, const struct wire_area *area, uint64_t offset, uint64_t size,
	       uint64_t commit_key)
{
	*r = (struct ring){ .area = area, .offset = offset, .size = size, .commit_key = commit_key };
	r->record = malloc(RECORD_MAX);
	return r->record != NULL;
}

void ring_deinit(struct ring *r)
{
	free(r->record);
	*r = (struct ring){ 0 };
}

static bool load_word(const struct ring *r, uint64_t offset, uint64_t *ret)
{
	if (r->area->mapped) {
		*ret = __atomic_load_n((const uint64_t *)((const char *)r->area->mapped + offset),
				       __ATOMIC_ACQUIRE);
		return true;
	}
	return r->area->read(r->area->ctx, offset, ret, sizeof(*ret));
}

static bool well_formed(const struct wire_record *rec)
{
	uint64_t raw = rec->walk_end == WALK_END_UNKNOWN_PC ? sizeof(struct regs) + rec->raw_len : 0;

	/* What the kernel did is never reported by the program: its part of a record is read as addresses of the
	 * kernel. */
	return rec->nframes >= 1 && rec->nframes <= WIRE_FRAMES && rec->raw_len <= WIRE_RAW_MAX &&
	       rec->raw_len % 8 == 0 && rec->watch < WIRE_WATCHES && rec->walk_end <= WALK_END_UNKNOWN_PC &&
	       !(rec->flags & WIRE_KERNEL) && sizeof(*rec) + 8ull * rec->nframes + raw <= rec->size;
}

enum ring_result ring_next(struct ring *r, const struct wire_record **ret)
{
	struct wire_record *rec = (struct wire_record *)r->record;
	uint64_t head, commit, at, left;

	for (;;) {
		if (!load_word(r, offsetof(struct wire_control, head), &head))
			return RING_GONE;
		if (head == r->tail)
			return RING_EMPTY;
		at = r->offset + (r->tail & (r->size - 1));
		left = r->size - (r->tail & (r->size - 1));
		if (!load_word(r, at, &commit))
			return RING_GONE;
		if (commit != (r->tail ^ r->commit_key))
			return head - r->tail > r->size ? RING_CORRUPT : RING_BUSY;
		if (!r->area->read(r->area->ctx, at, rec, RECORD_HEADER))
			return RING_GONE;
		if (rec->size < RECORD_HEADER || rec->size % 16 || rec->size > left)
			return RING_CORRUPT;
		/* It fills the end of the ring, and there is one a round: who claims more would keep us here.
		 */
		if (rec->flags & WIRE_PADDING) {
			if (rec->size != left || left == r->size)
				return RING_CORRUPT;
			r->tail += left;
			continue;
		}
		if (rec->size > RECORD_MAX || rec->size < sizeof(*rec))
			return RING_CORRUPT;
		left = rec->size;
		if (!r->area->read(r->area->ctx, at, rec, left))
			return RING_GONE;
		if (rec->size != left || !well_formed(rec))
			return RING_CORRUPT;
		r->tail += left;
		*ret = rec;
		return RING_RECORD;
	}
}

void ring_release(struct ring *r)
{
	uint64_t offset = offsetof(struct wire_control, tail);

	if (r->area->mapped)
		__atomic_store_n((uint64_t *)((char *)r->area->mapped + offset), r->tail, __ATOMIC_RELEASE);
	else
		r->area->write(r->area->ctx, offset, &r->tail, sizeof(r->tail));
}
