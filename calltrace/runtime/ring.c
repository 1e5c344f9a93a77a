#include "calltrace/runtime/ring.h"

static void clear(struct calltrace_slot *from, const struct calltrace_slot *end)
{
	uint64_t n = (uint64_t)(end - from) * sizeof(*from) / sizeof(uint64_t);

	__asm__ volatile("rep stosq" : "+D"(from), "+c"(n) : "a"(0) : "memory");
}

/* Events of signal handlers, which came before the turn at the ring's end, go to its beginning. */
static struct calltrace_slot *wrap(struct ring *r, struct calltrace_slot *at)
{
	struct calltrace_slot *slack = r->slot + r->chunks * CHUNK_SLOTS;
	const uint64_t n = (uint64_t)(at - slack);

	for (uint64_t i = 0; i < n; i++) {
		r->overwritten += r->slot[i].what != 0;
		r->slot[i] = slack[i];
	}
	clear(slack, at);
	return r->slot + n;
}

struct calltrace_slot *ring_turn(struct ring *r, struct calltrace_slot *at)
{
	struct calltrace_slot *end;

	if (at >= r->slot + r->chunks * CHUNK_SLOTS)
		at = wrap(r, at);
	r->current = (uint32_t)((uint64_t)(at - r->slot) / CHUNK_SLOTS);
	end = r->slot + (r->current + 1) * CHUNK_SLOTS;
	/* Written from its beginning to its end: what is true of the last slot is true of those before. */
	if (end[-1].what) {
		r->overwritten += (uint64_t)(end - at);
		if (r->read_chunk == r->current)
			r->overwritten -= r->read_slots;
	}
	if (r->read_chunk == r->current)
		r->read_slots = 0;
	clear(at, end);
	return at;
}

bool ring_stretch(const struct ring *r, unsigned int stretch, struct calltrace_slot **from,
		  struct calltrace_slot **end)
{
	struct calltrace_slot *newest = r->slot + (r->current + 1) * CHUNK_SLOTS;

	*from = stretch ? r->slot : newest;
	*end = stretch ? newest : r->slot + r->chunks * CHUNK_SLOTS;
	return stretch < 2;
}
