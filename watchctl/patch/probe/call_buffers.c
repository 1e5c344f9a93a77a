/*
 * A thread's chunks are known by their numbers, the oldest first. While there is a later one, all slots of a chunk have been taken: one
 * that is not written is being written, by a thread that a signal's handler has interrupted there, or never will be.
 */
#include "watchctl/patch/probe/call_buffers.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"

#define STUCK_NS 1000000000ull /* so long a slot may take to be written */
#define READ_MOST 200000u      /* events at a time */
#define AHEAD 16	       /* slots that are asked for before they are read */

struct chunk_ref {
	uint32_t chunk, number;
};

struct buffered_thread {
	uint32_t tid;
	struct chunk_ref *chunk; /* from @first on */
	size_t first, n, cap;
	uint32_t at;		      /* the slot that is read next, of the first chunk */
	uint64_t stuck_ns;	      /* since when that has been taken and is not written; 0: it has not */
	const struct call_slot *next; /* the same, while reading: complete; NULL: there is none */
};

struct call_buffers {
	struct call_shared *shared;
	uint64_t chunks_at; /* of the chunks, from @shared on */
	uint32_t nchunks, chunk_bytes, nslots;
	uint64_t chunk_at;	     /* as the program has it */
	struct buffered_thread **of; /* of each chunk: whose it is; NULL: nobody's that we know */
	struct buffered_thread **thread;
	size_t n, cap;
	struct map64 by_tid;
	uint64_t unfinished;
	struct call_plans *plans;
	struct map64 plan_at; /* by the hash of a plan: where it is, plus 1 */
	uint32_t plans_used;
};

struct call_buffers *call_buffers_new(const struct probe_place *p)
{
	struct call_buffers *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->shared = p->calls;
	b->nchunks = p->calls->nchunks;
	b->chunk_bytes = p->calls->chunk_bytes;
	b->chunk_at = p->calls->chunk_at;
	b->nslots = call_chunk_slots(b->chunk_bytes);
	b->chunks_at = b->chunk_at - p->calls_at;
	b->plans = p->plans;
	b->of = calloc(b->nchunks, sizeof(*b->of));
	if (b->of)
		return b;
	free(b);
	return NULL;
}

void call_buffers_free(struct call_buffers *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->n; i++) {
		free(b->thread[i]->chunk);
		free(b->thread[i]);
	}
	free(b->thread);
	map64_deinit(&b->by_tid);
	map64_deinit(&b->plan_at);
	free(b->of);
	free(b);
}

uint64_t call_buffers_unfinished(const struct call_buffers *b)
{
	return b->unfinished;
}

void call_buffers_switch(struct call_buffers *b, uint32_t site, enum call_off to)
{
	if (site < CALL_SITES)
		__atomic_store_n(&b->shared->off[site], (uint8_t)to, __ATOMIC_RELAXED);
}

/* Plans */

static uint32_t plan_size(const struct call_plan *plan)
{
	return (uint32_t)(sizeof(*plan) + plan->n * sizeof(plan->fetch[0]));
}

/* Where it is from now on; UINT32_MAX: there is no room. */
static uint32_t keep_plan(struct call_buffers *b, const struct call_plan *plan)
{
	const uint32_t size = plan_size(plan);
	uint64_t key = hash_bytes(HASH_START, plan, size);
	uint32_t at;

	for (uintptr_t found; (found = (uintptr_t)map64_get(&b->plan_at, key)); key++)
		if (!memcmp(b->plans->bytes + found - 1, plan, size))
			return (uint32_t)(found - 1);
	at = b->plans_used;
	if (at > CALL_PLANS_BYTES - CALL_PLAN_MOST ||
	    !map64_put(&b->plan_at, key, (void *)(uintptr_t)(at + 1)))
		return UINT32_MAX;
	memcpy(b->plans->bytes + at, plan, size);
	b->plans_used += size;
	return at;
}

bool call_buffers_plan(struct call_buffers *b, uint32_t site, const struct call_plan *plan)
{
	const uint32_t at = b->plans && site < CALL_SITES ? keep_plan(b, plan) : UINT32_MAX;

	if (at == UINT32_MAX)
		return false;
	b->plans->of[site] = at;
	__atomic_store_n(&b->shared->off[site], (uint8_t)CALL_VALUED, __ATOMIC_RELEASE);
	return true;
}

void call_buffers_errno(struct call_buffers *b, int32_t at)
{
	__atomic_store_n(&b->shared->errno_at, at, __ATOMIC_RELAXED);
}

void call_buffers_wait(struct call_buffers *b, bool wait)
{
	__atomic_store_n(&b->shared->waits, wait, __ATOMIC_RELAXED);
}

bool call_buffers_fixed(struct call_buffers *b, uint64_t start, uint64_t end)
{
	struct call_shared *s = b->shared;
	const uint32_t n = s->nfixed;

	if (n >= CALL_FIXED)
		return false;
	s->fixed[n] = (struct call_span){ start, end };
	__atomic_store_n(&s->nfixed, n + 1, __ATOMIC_RELEASE);
	return true;
}

/* Chunks that are there since the last time */

static struct buffered_thread *thread_of(struct call_buffers *b, uint32_t tid)
{
	struct buffered_thread *t = map64_get(&b->by_tid, tid);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->tid = tid;
	if (!vec_push(b->thread, b->n, b->cap, t)) {
		free(t);
		return NULL;
	}
	return map64_put(&b->by_tid, tid, t) ? t : NULL;
}

static bool is_older(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static bool add_chunk(struct buffered_thread *t, struct chunk_ref c)
{
	size_t i;

	if (t->first && t->first == t->n)
		t->first = t->n = 0;
	if (!vec_push(t->chunk, t->n, t->cap, c))
		return false;
	for (i = t->n - 1; i > t->first && is_older(c.number, t->chunk[i - 1].number); i--)
		t->chunk[i] = t->chunk[i - 1];
	/* One that has been begun to be read stays the first. */
	if (i == t->first && t->n - t->first > 1 && t->at) {
		t->chunk[i] = t->chunk[i + 1];
		i++;
	}
	t->chunk[i] = c;
	return true;
}

/* Whether it is still what it was when it was found: a thread may have given it back at once. */
static bool is_still(const struct call_buffers *b, const struct chunk_ref *c)
{
	const struct call_chunk *now = &b->shared->chunk[c->chunk];

	return __atomic_load_n(&now->state, __ATOMIC_ACQUIRE) == CALL_CHUNK_USED && now->number == c->number;
}

static void drop_given_back(struct call_buffers *b, struct buffered_thread *t)
{
	size_t n = t->first;

	for (size_t i = t->first; i < t->n; i++) {
		if (is_still(b, &t->chunk[i])) {
			t->chunk[n++] = t->chunk[i];
			continue;
		}
		b->of[t->chunk[i].chunk] = NULL;
		if (i == t->first)
			t->at = 0;
	}
	t->n = n;
}

static bool find_chunks(struct call_buffers *b)
{
	for (size_t i = 0; i < b->n; i++)
		drop_given_back(b, b->thread[i]);
	for (uint32_t i = 0; i < b->nchunks; i++) {
		const struct call_chunk *c = &b->shared->chunk[i];
		struct buffered_thread *t;

		if (b->of[i] || __atomic_load_n(&c->state, __ATOMIC_ACQUIRE) != CALL_CHUNK_USED)
			continue;
		t = thread_of(b, c->tid);
		if (!t || !add_chunk(t, (struct chunk_ref){ i, c->number }))
			return false;
		b->of[i] = t;
	}
	return true;
}

/* Reading */

static char *chunk_memory(const struct call_buffers *b, uint32_t chunk)
{
	return (char *)b->shared + b->chunks_at + (uint64_t)chunk * b->chunk_bytes;
}

static const struct call_slot *slot_at(const struct call_buffers *b, uint32_t chunk, uint32_t i)
{
	return (const struct call_slot *)(const void *)chunk_memory(b, chunk) + i;
}

/* With zeros in it. */
static void give_back(struct call_buffers *b, struct buffered_thread *t)
{
	const uint32_t i = t->chunk[t->first++].chunk;

	t->at = 0;
	t->stuck_ns = 0;
	b->of[i] = NULL;
	memset(chunk_memory(b, i), 0, b->nslots * sizeof(struct call_slot));
	__atomic_store_n(&b->shared->chunk[i].state, CALL_CHUNK_FREE, __ATOMIC_RELEASE);
	__atomic_fetch_add(&b->shared->nfree, 1, __ATOMIC_RELEASE);
}

static const struct call_thread_place *place_of(const struct call_buffers *b, uint32_t tid)
{
	for (uint32_t i = 0; i < CALL_NEIGHBOURS; i++) {
		const struct call_thread_place *p = &b->shared->place[(tid + i) % CALL_PLACES];

		if (__atomic_load_n(&p->owner, __ATOMIC_RELAXED) == tid)
			return p;
	}
	return NULL;
}

void call_buffers_stack(struct call_buffers *b, uint32_t tid, uint64_t start, uint64_t end, bool is_main)
{
	struct call_thread_place *p = (struct call_thread_place *)place_of(b, tid);

	if (!p)
		return;
	__atomic_store_n(&p->stack_is_main, is_main, __ATOMIC_RELAXED);
	__atomic_store_n(&p->stack_end, end, __ATOMIC_RELAXED);
	__atomic_store_n(&p->stack_start, start, __ATOMIC_RELEASE);
}

/* How many slots of the first chunk have been taken. */
static uint32_t taken(const struct call_buffers *b, const struct buffered_thread *t)
{
	const struct call_thread_place *p;
	uint64_t at;

	if (t->n - t->first > 1)
		return b->nslots;
	p = place_of(b, t->tid);
	at = p ? __atomic_load_n(&p->next, __ATOMIC_ACQUIRE) -
			     (b->chunk_at + (uint64_t)t->chunk[t->first].chunk * b->chunk_bytes)
	       : 0;
	return at < b->chunk_bytes ? (uint32_t)(at / sizeof(struct call_slot)) : 0;
}

/* A thread is kept off its processor as long as that takes, but does not stay in a trampoline. */
static bool is_stuck(struct buffered_thread *t, bool last)
{
	const uint64_t now = monotonic_ns();

	if (last)
		return true;
	if (!t->stuck_ns)
		t->stuck_ns = now;
	return now - t->stuck_ns >= STUCK_NS;
}

/* Of one that is not complete: how many were taken with it. */
static uint32_t taken_together(const struct call_slot *s)
{
	const uint64_t n = __atomic_load_n(&s->return_address, __ATOMIC_ACQUIRE) ^ CALL_TAKEN;

	return n >= 1 && n <= UINT16_MAX ? (uint32_t)n : 1;
}

/* The next slots are not written. True: they are passed over. */
static bool pass_over(struct call_buffers *b, struct buffered_thread *t, bool last)
{
	const uint32_t end = taken(b, t);
	uint32_t i = t->at;

	if (t->at >= end || !is_stuck(t, last))
		return false;
	while (i < end && !__atomic_load_n(&slot_at(b, t->chunk[t->first].chunk, i)->place, __ATOMIC_ACQUIRE))
		i += taken_together(slot_at(b, t->chunk[t->first].chunk, i));
	if (i > end)
		i = end;
	/* Nothing is in it at all: its thread was stopped for good while it took it. */
	if (t->at || i < end)
		b->unfinished += i - t->at;
	t->at = i;
	t->stuck_ns = 0;
	return true;
}

/* @n of them, or as many as there are from @at on. */
static uint32_t slots_left(const struct call_buffers *b, uint32_t at, uint64_t n)
{
	return n && n < b->nslots - at ? (uint32_t)n : b->nslots - at;
}

/* The next slot that is complete; NULL: there is none yet. */
static const struct call_slot *next_slot(struct call_buffers *b, struct buffered_thread *t, bool last)
{
	while (t->first < t->n) {
		const struct chunk_ref c = t->chunk[t->first];
		const struct call_slot *s;

		if (t->at >= b->nslots) {
			give_back(b, t);
			continue;
		}
		s = slot_at(b, c.chunk, t->at);
		if (__atomic_load_n(&s->place, __ATOMIC_ACQUIRE)) {
			if (!(s->tsc & CALL_TSC_NOTHING))
				return s;
			t->at += slots_left(b, t->at, s->return_address);
			t->stuck_ns = 0;
			continue;
		}
		if (!pass_over(b, t, last))
			return NULL;
	}
	return NULL;
}

static uint64_t time_of(const struct call_slot *s)
{
	return s->tsc & ~CALL_TSC_VALUES;
}

/* The thread whose next event is the oldest; *@until: that of the next thread. */
static struct buffered_thread *oldest(const struct call_buffers *b, uint64_t *until)
{
	struct buffered_thread *ret = NULL;

	*until = UINT64_MAX;
	for (size_t i = 0; i < b->n; i++) {
		struct buffered_thread *t = b->thread[i];

		if (!t->next)
			continue;
		if (!ret || time_of(t->next) < time_of(ret->next)) {
			if (ret)
				*until = time_of(ret->next);
			ret = t;
		} else if (time_of(t->next) < *until) {
			*until = time_of(t->next);
		}
	}
	return ret;
}

/* The values behind @s, up to @end, become @c's. Returns the slots that they take. */
static uint32_t find_values(const struct call_slot *s, const struct call_slot *end, struct call_passed *c)
{
	const struct call_values *v = (const struct call_values *)(const void *)(s + 1);
	const size_t room = (size_t)(end - s - 1) * sizeof(*s);
	uint32_t len;

	if (room < sizeof(*v))
		return 0;
	len = __atomic_load_n(&v->len, __ATOMIC_RELAXED);
	if (len > room - sizeof(*v))
		return (uint32_t)(end - s - 1); /* the program has written over it */
	c->values = v->bytes;
	c->values_len = len;
	return (uint32_t)((sizeof(*v) + len + sizeof(*s) - 1) / sizeof(*s));
}

/* Of one chunk, from t->next on. */
static struct wc_error *read_chunk(const struct call_buffers *b, struct buffered_thread *t, uint64_t until,
				   struct wc_error *(*take)(void *ctx, const struct call_passed *c),
				   void *ctx)
{
	const struct call_slot *s = t->next, *end = s + (b->nslots - t->at);
	struct wc_error *err = NULL;
	struct call_passed c;
	uint64_t place;

	for (; s < end && !err && (place = __atomic_load_n(&s->place, __ATOMIC_ACQUIRE)) &&
	       !(s->tsc & CALL_TSC_NOTHING) && time_of(s) <= until;
	     s++) {
		c = (struct call_passed){ .tsc = time_of(s),
					  .sp = call_slot_sp(place),
					  .return_address = s->return_address,
					  .tid = t->tid,
					  .site = call_slot_site(place) };

		__builtin_prefetch(s + AHEAD);
		if (s->tsc & CALL_TSC_VALUES)
			s += find_values(s, end, &c);
		err = take(ctx, &c);
	}
	t->at += (uint32_t)(s - t->next);
	t->stuck_ns = 0;
	return err;
}

struct wc_error *call_buffers_read(struct call_buffers *b, enum call_order order, bool last,
				   struct wc_error *(*take)(void *ctx, const struct call_passed *c),
				   void *ctx, bool *more)
{
	struct buffered_thread *t;
	struct wc_error *err = NULL;
	size_t nread = 0;
	uint64_t until;

	if (!find_chunks(b))
		return &wc_enomem;
	for (size_t i = 0; i < b->n; i++)
		b->thread[i]->next = next_slot(b, b->thread[i], last);
	while (!err && nread < READ_MOST && (t = oldest(b, &until))) {
		const uint32_t at = t->at;

		err = read_chunk(b, t, order == CALL_ORDER_TIME ? until : UINT64_MAX, take, ctx);
		nread += t->at - at;
		t->next = next_slot(b, t, last);
	}
	*more = nread >= READ_MOST / 2;
	return err;
}

/* The thread has ended: trampolines go nowhere by its place before another thread can have it. */
static void free_place(struct call_buffers *b, uint32_t tid)
{
	struct call_thread_place *p = (struct call_thread_place *)place_of(b, tid);

	if (!p)
		return;
	__atomic_store_n(&p->tid, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&p->last, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&p->next, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&p->stack_start, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&p->stack_end, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&p->owner, 0, __ATOMIC_RELEASE);
}

void call_buffers_sweep(struct call_buffers *b, bool (*is_gone)(void *ctx, uint32_t tid), void *ctx)
{
	for (size_t i = b->n; i--;) {
		struct buffered_thread *t = b->thread[i];

		if (next_slot(b, t, false) || t->n - t->first > 1 || !is_gone(ctx, t->tid))
			continue;
		free_place(b, t->tid);
		while (t->first < t->n)
			give_back(b, t);
		map64_put(&b->by_tid, t->tid, NULL);
		free(t->chunk);
		free(t);
		b->thread[i] = b->thread[--b->n];
	}
}
