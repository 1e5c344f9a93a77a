/*
 * calls - what trampolines of `watchctl trace` leave to C, at the first instruction of functions and at those that leave them. See
 * call_wire.h.
 */
#include "probe/probe.h"

#include <stdbool.h>

#include "probe/calls/call_fetch.h"
#include "probe/calls/call_wire.h"
#include "probe/wire.h"

extern struct probe_shared *probe_shared __attribute__((visibility("hidden")));

/* Of runtime.c. False: the program may not be made to do that. */
bool probe_sleep(long ns) __attribute__((visibility("hidden")));

#define TRIES 4		/* how often a signal's handler may come between */
#define LATE (1u << 29) /* ticks: well below the second that the reader waits for a slot, on any processor */
#define SLEEP_NS 50000
#define SLEEPS 10000u /* without a heartbeat */
#define RSP 7u	      /* by DWARF's numbers */

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

/*
 * Waits, if that is asked for. False: in vain; nobody reads any more, and nobody waits again. Each sleep takes some 100 us, for the kernel
 * adds the timer's slack.
 */
static bool wait_for_chunk(struct call_shared *s)
{
	uint64_t beat = __atomic_load_n(&probe_shared->heartbeat, __ATOMIC_RELAXED);

	for (unsigned int n = 0; !__atomic_load_n(&s->nfree, __ATOMIC_RELAXED); n++) {
		const uint64_t now = __atomic_load_n(&probe_shared->heartbeat, __ATOMIC_RELAXED);

		if (!__atomic_load_n(&s->waits, __ATOMIC_RELAXED))
			return false;
		if (now != beat) {
			beat = now;
			n = 0;
		}
		if (n == SLEEPS || !probe_sleep(SLEEP_NS))
			__atomic_store_n(&s->waits, 0, __ATOMIC_RELAXED);
	}
	return __atomic_load_n(&s->waits, __ATOMIC_RELAXED);
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
	do
		i = take_chunk(s, tid);
	while (i >= s->nchunks && wait_for_chunk(s));
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

/* As trampolines do it. False: there was no room, and its chunk is full. */
static bool record_plain(const struct call_shared *s, struct call_thread_place *p,
			 const struct probe_site *site, const uint64_t *sp)
{
	struct call_slot *slot;
	uint64_t at = CALL_SLOT_SIZE;

	__asm__ volatile("xaddq %0, %1" : "+r"(at), "+m"(p->next) : : "memory");
	if (!p->last || __atomic_load_n(&p->last, __ATOMIC_RELAXED) - at > call_chunk_span(s->chunk_bytes))
		return false;
	slot = (struct call_slot *)at;
	slot->tsc = probe_ticks();
	slot->return_address = *sp;
	__atomic_store_n(&slot->place, (uint64_t)sp >> 3 << CALL_SITE_BITS | site->id, __ATOMIC_RELEASE);
	return true;
}

/* With values */

/* Slots that nothing is in. */
static void pass_over(struct call_slot *slot, uint64_t n)
{
	slot->tsc = CALL_TSC_NOTHING;
	slot->return_address = n;
	__atomic_store_n(&slot->place, 1, __ATOMIC_RELEASE);
}

/* Takes @n slots at once, of which none is behind the chunk. NULL: they were not there, or somebody came between. */
static struct call_slot *take_slots(const struct call_shared *s, struct call_thread_place *p, uint64_t n,
				    uint64_t *last)
{
	const uint64_t next = __atomic_load_n(&p->next, __ATOMIC_RELAXED);
	uint64_t left;

	*last = __atomic_load_n(&p->last, __ATOMIC_RELAXED);
	if (!*last || *last - next > call_chunk_span(s->chunk_bytes))
		return NULL;
	left = (*last - next) / CALL_SLOT_SIZE + 1;
	if (left >= n)
		return set_chunk(p, next, *last, next + n * CALL_SLOT_SIZE, *last) ? (struct call_slot *)next
										   : NULL;
	if (set_chunk(p, next, *last, *last + CALL_SLOT_SIZE, *last))
		pass_over((struct call_slot *)next, left);
	return NULL;
}

/* Gives slots from @used on back, in which is nothing but zeros; if others were taken behind them, they are passed over. */
static void give_slots_back(struct call_thread_place *p, struct call_slot *slot, uint64_t used, uint64_t n,
			    uint64_t last)
{
	if (used < n && !set_chunk(p, (uint64_t)(slot + n), last, (uint64_t)(slot + used), last))
		pass_over(slot + used, n - used);
}

/*
 * False: it took so long (the program was stopped, or memory had to come from a disk) that the reader may have given the slots up: they
 * are left as they are, for him to pass over.
 */
static bool write_values(struct call_shared *s, struct call_thread_place *p, const struct probe_site *site,
			 const struct call_plan *plan, const uint64_t *regs, struct call_slot *slot,
			 uint64_t last)
{
	const struct call_fetch_source source = { s, p, regs };
	const uint64_t *sp = (const uint64_t *)regs[RSP], n = plan->slots;
	const uint64_t tsc = probe_ticks();
	struct call_values *v = (struct call_values *)(slot + 1);
	uint8_t *dirty, *end;
	uint64_t used;

	__atomic_store_n(&slot->return_address, CALL_TAKEN | n, __ATOMIC_RELEASE);
	end = call_fetch_all(&source, plan, v->bytes, (uint8_t *)(slot + n), &dirty);
	v->len = (uint32_t)(end - v->bytes);
	used = 1 + (sizeof(*v) + v->len + CALL_SLOT_SIZE - 1) / CALL_SLOT_SIZE;
	for (uint8_t *at = (uint8_t *)(slot + used); at < dirty; at++) {
		*at = 0;
		__asm__ volatile("");
	}
	if (probe_ticks() - tsc > LATE)
		return false;
	give_slots_back(p, slot, used, n, last);
	slot->tsc = tsc | CALL_TSC_VALUES;
	slot->return_address = *sp;
	__atomic_store_n(&slot->place, (uint64_t)sp >> 3 << CALL_SITE_BITS | site->id, __ATOMIC_RELEASE);
	return true;
}

/* The plan of a site; NULL: nothing is fetched there. */
static const struct call_plan *plan_of(const struct call_shared *s, uint32_t site)
{
	const struct call_plans *all = (const struct call_plans *)s->plans_at;
	const struct call_plan *plan;
	uint32_t at;

	if (!all || site >= CALL_SITES || s->off[site] != CALL_VALUED)
		return NULL;
	at = all->of[site];
	if (at > CALL_PLANS_BYTES - CALL_PLAN_MOST)
		return NULL;
	plan = (const struct call_plan *)(all->bytes + at);
	return plan->slots >= 2 ? plan : NULL;
}

/* Of call_buffered.S. @regs: the general registers, by DWARF's numbers. */
void call_record(struct call_shared *s, const struct probe_site *site, const uint64_t *regs)
	__attribute__((visibility("hidden")));

void call_record(struct call_shared *s, const struct probe_site *site, const uint64_t *regs)
{
	struct probe_counter *counter = (struct probe_counter *)site->counter;
	const struct call_plan *plan = plan_of(s, site->id);
	const uint32_t tid = probe_thread();
	struct call_thread_place *p = place_of(s, tid);

	for (unsigned int i = 0; p && i < TRIES; i++) {
		uint64_t last;
		struct call_slot *slot = plan ? take_slots(s, p, plan->slots, &last) : NULL;

		if (slot) {
			if (write_values(s, p, site, plan, regs, slot, last))
				return;
			break;
		}
		if (!plan && record_plain(s, p, site, (const uint64_t *)regs[RSP]))
			return;
		if (!turn(s, p, tid))
			break;
	}
	__atomic_fetch_add(&counter->lost, 1, __ATOMIC_RELAXED);
}
