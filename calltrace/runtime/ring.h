/*
 * ring - a thread's last events, for a flight recorder: chunks that are used again, the oldest one first. Behind them is
 * the slack, for what signal handlers record between the last slot of the ring and the turn.
 *
 * The owner gives slots and takes turns; under the thread's lock somebody else may read. A slot that is not written is 0.
 */
#ifndef CALLTRACE_RUNTIME_RING_H
#define CALLTRACE_RUNTIME_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "calltrace/abi.h"

#define CHUNK_SLOTS (CALLTRACE_CHUNK / sizeof(struct calltrace_slot))
#define SLACK_CHUNKS 2u

struct ring {
	struct calltrace_slot *slot;	 /* of all chunks and the slack; zero at the beginning */
	uint32_t chunks;		 /* >= 2 */
	uint32_t current;		 /* the chunk in which slots are given */
	uint64_t overwritten;		 /* slots that were not read, since somebody set this to 0 */
	uint32_t read_chunk, read_slots; /* so many of this one were read while it was the current one */
};

/* A chunk ends before the slot @at, which is given next; returns the one to be given instead. */
struct calltrace_slot *ring_turn(struct ring *r, struct calltrace_slot *at);

/* The slots [@from, @end) of one stretch were read, and are 0 now. */
static inline void ring_read(struct ring *r, const struct calltrace_slot *from,
			     const struct calltrace_slot *end)
{
	const struct calltrace_slot *const current = r->slot + (uint64_t)r->current * CHUNK_SLOTS;

	from = from > current ? from : current;
	end = end < current + CHUNK_SLOTS ? end : current + CHUNK_SLOTS;
	if (from >= end)
		return;
	if (r->read_chunk != r->current)
		r->read_slots = 0;
	r->read_chunk = r->current;
	r->read_slots += (uint32_t)(end - from);
}

/*
 * The two stretches of its slots, the older one first: [*@from, *@end), which may be empty. False: @stretch is beyond
 * them.
 */
bool ring_stretch(const struct ring *r, unsigned int stretch, struct calltrace_slot **from,
		  struct calltrace_slot **end);

#endif
