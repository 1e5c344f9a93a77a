/* calls - the probes of `watchctl trace`, at the first instruction of functions and at those that leave them. */
#include "probe/probe.h"

#include <stdbool.h>

#include "probe/calls/call_wire.h"
#include "probe/wire.h"

PROBE(call_passed)
{
	probe_record_call(p, false);
}

PROBE(call_entered)
{
	probe_record_call(p, true);
}

/* Of buffers, see call_wire.h: what trampolines leave to C. */

#define TRIES 4 /* how often a signal's handler may come between */

/* NULL: all that it could have are others'. */
static struct call_thread_place *place_of(struct call_shared *s, uint32_t tid)
{
	for (uint32_t i = 0; i < CALL_NEIGHBOURS; i++) {
		struct call_thread_place *p = &s->place[(tid + i) % CALL_PLACES];
		uint32_t now = __atomic_load_n(&p->owner, __ATOMIC_RELAXED);

		if (!now && __atomic_compare_exchange_n(&p->owner, &now, tid, false, __ATOMIC_RELAXED,
							__ATOMIC_RELAXED))
			now = tid;
		if (now == tid)
			return p;
	}
	return NULL;
}

/* Takes one; s->nchunks: there is none. */
static uint32_t take_chunk(struct call_shared *s, uint32_t tid)
{
	const uint32_t n = s->nchunks <= CALL_CHUNKS ? s->nchunks : CALL_CHUNKS;
	uint32_t nfree = __atomic_load_n(&s->nfree, __ATOMIC_RELAXED);

	do
		if (!nfree)
			return n;
	while (!__atomic_compare_exchange_n(&s->nfree, &nfree, nfree - 1, true, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED));
	/* The first that is free: its memory has most likely been used before, and is there. */
	for (uint32_t i = 0; i < n; i++) {
		struct call_chunk *c = &s->chunk[i];
		uint32_t now = CALL_CHUNK_FREE;

		if (__atomic_load_n(&c->state, __ATOMIC_RELAXED) != CALL_CHUNK_FREE ||
		    !__atomic_compare_exchange_n(&c->state, &now, CALL_CHUNK_CLAIMED, false, __ATOMIC_ACQUIRE,
						 __ATOMIC_RELAXED))
			continue;
		c->tid = tid;
		c->number = __atomic_fetch_add(&s->next_number, 1, __ATOMIC_RELAXED);
		return i;
	}
	return n;
}

static void give_chunk_back(struct call_shared *s, uint32_t i)
{
	__atomic_store_n(&s->chunk[i].state, CALL_CHUNK_FREE, __ATOMIC_RELEASE);
	__atomic_fetch_add(&s->nfree, 1, __ATOMIC_RELEASE);
}

/* False: somebody has come between, and it has another chunk by now. One instruction: nothing of the thread's own comes into it. */
static bool set_chunk(struct call_thread_place *p, uint64_t next, uint64_t last, uint64_t new_next,
		      uint64_t new_last)
{
	bool ok;

	__asm__ volatile("cmpxchg16b (%[p])"
			 : "=@cce"(ok), "+a"(next), "+d"(last)
			 : [p] "r"(p), "b"(new_next), "c"(new_last)
			 : "memory");
	return ok;
}

/* A new chunk for a thread whose own is full. False: there is none. */
static bool turn(struct call_shared *s, struct call_thread_place *p, uint32_t tid)
{
	const uint64_t next = __atomic_load_n(&p->next, __ATOMIC_RELAXED);
	const uint64_t last = __atomic_load_n(&p->last, __ATOMIC_RELAXED);
	uint64_t at;
	uint32_t i;

	if (last && next <= last)
		return true;
	i = take_chunk(s, tid);
	if (i >= s->nchunks) {
		set_chunk(p, next, last, last + CALL_SLOT_SIZE, last); /* it never gets far */
		return false;
	}
	at = s->chunk_at + (uint64_t)i * s->chunk_bytes;
	/* Before the thread has it: whoever reads must know whose the first event in it is. */
	__atomic_store_n(&s->chunk[i].state, CALL_CHUNK_USED, __ATOMIC_RELEASE);
	if (!set_chunk(p, next, last, at, at + call_chunk_span(s->chunk_bytes)))
		give_chunk_back(s, i);
	if (p == &s->place[tid % CALL_PLACES])
		__atomic_store_n(&p->tid, tid, __ATOMIC_RELEASE);
	return true;
}

static void write_slot(uint64_t at, const struct probe_site *site, const uint64_t *sp)
{
	struct call_slot *slot = (struct call_slot *)at;

	slot->tsc = probe_ticks();
	slot->return_address = *sp;
	__atomic_store_n(&slot->place, (uint64_t)sp >> 3 << CALL_SITE_BITS | site->id, __ATOMIC_RELEASE);
}

/* Of call_buffered.S. */
void call_record(struct call_shared *s, const struct probe_site *site, const uint64_t *sp)
	__attribute__((visibility("hidden")));

void call_record(struct call_shared *s, const struct probe_site *site, const uint64_t *sp)
{
	struct probe_counter *counter = (struct probe_counter *)site->counter;
	const uint32_t tid = probe_thread();
	struct call_thread_place *p = place_of(s, tid);

	for (unsigned int i = 0; p && i < TRIES; i++) {
		uint64_t at = CALL_SLOT_SIZE;

		/* As trampolines do it. */
		__asm__ volatile("xaddq %0, %1" : "+r"(at), "+m"(p->next) : : "memory");
		if (p->last &&
		    __atomic_load_n(&p->last, __ATOMIC_RELAXED) - at <= call_chunk_span(s->chunk_bytes)) {
			write_slot(at, site, sp);
			return;
		}
		if (!turn(s, p, tid))
			break;
	}
	__atomic_fetch_add(&counter->lost, 1, __ATOMIC_RELAXED);
}
