/*
 * Packed runs are in blocks, each of which can be read without those before it:
 *
 *	run	number	thread << 2 | 2 if its one event is a call | 1: a single event, the one behind the thread's run before
 *		or	thread << 2 | 2 if it is of ends | 0, then
 *			byte	how they end, of ends only
 *			number	the event, less the one behind the thread's run before in the block; 0, if it has none there
 *			number	of positions
 *			number	of calls among them
 *	number	7 bits a byte, the lowest ones first; bit 7: more follow
 */
#include "watchctl/trace/calls/call_runs.h"

#include <stdlib.h>

#include "watchctl/base/bisect.h"
#include "watchctl/base/vec.h"

#define BLOCK_RUNS 128u
#define NUMBER_BYTES 10u
#define RUN_BYTES (4u * NUMBER_BYTES + 1u) /* at most */

#define IS_SINGLE 1u
#define IS_CALL 2u   /* of a single one */
#define IS_ENDING 2u /* of others */

struct call_runs_block {
	size_t at; /* of its first byte */
	uint64_t position, calls;
};

struct call_runs_thread {
	size_t block;  /* how many there were with its last run */
	uint64_t next; /* the event behind that */
};

struct packed_run {
	uint32_t thread;
	uint8_t ending;
	uint64_t distance, positions, calls;
};

static uint8_t *put_number(uint8_t *p, uint64_t n)
{
	for (; n > 0x7f; n >>= 7)
		*p++ = (uint8_t)(n | 0x80);
	*p++ = (uint8_t)n;
	return p;
}

static const uint8_t *get_number(const uint8_t *p, uint64_t *ret)
{
	uint64_t n = 0;
	unsigned int shift = 0;

	for (; *p & 0x80; p++, shift += 7)
		n |= (uint64_t)(*p & 0x7f) << shift;
	*ret = n | (uint64_t)*p << shift;
	return p + 1;
}

static uint8_t *put_run(uint8_t *p, const struct packed_run *run, bool is_known)
{
	const uint64_t thread = (uint64_t)run->thread << 2;

	if (is_known && !run->ending && !run->distance && run->positions == 1)
		return put_number(p, thread | (run->calls ? IS_CALL : 0) | IS_SINGLE);
	p = put_number(p, thread | (run->ending ? IS_ENDING : 0));
	if (run->ending)
		*p++ = run->ending;
	p = put_number(p, run->distance);
	p = put_number(p, run->positions);
	return put_number(p, run->calls);
}

static const uint8_t *get_run(const uint8_t *p, struct packed_run *ret)
{
	uint64_t n;

	p = get_number(p, &n);
	*ret = (struct packed_run){ .thread = (uint32_t)(n >> 2), .positions = 1, .calls = n >> 1 & 1 };
	if (n & IS_SINGLE)
		return p;
	if (n & IS_ENDING)
		ret->ending = *p++;
	p = get_number(p, &ret->distance);
	p = get_number(p, &ret->positions);
	return get_number(p, &ret->calls);
}

/* The event behind the run, if it has @positions. */
static uint64_t behind(uint64_t event, uint8_t ending, uint64_t positions)
{
	return ending ? event : event + positions;
}

static bool begin_block(struct call_runs *r)
{
	const struct call_runs_block b = { r->nbytes, r->last.position, r->last.calls };

	if (r->nblocks && r->runs < BLOCK_RUNS)
		return true;
	r->runs = 0;
	return vec_push(r->block, r->nblocks, r->blocks_cap, b);
}

static bool has_thread(struct call_runs *r, uint32_t thread)
{
	const size_t n = r->nthreads;

	if (!vec_reserve((void **)&r->thread, &r->nthreads, (size_t)thread + 1, sizeof(*r->thread)))
		return false;
	for (size_t i = n; i < r->nthreads; i++)
		r->thread[i] = (struct call_runs_thread){ 0 };
	return true;
}

/* The last run, which ends before @position. */
static bool pack_last(struct call_runs *r, uint64_t position, uint64_t calls)
{
	const struct call_run *last = &r->last;
	struct packed_run run = { .thread = last->thread,
				  .ending = last->ending,
				  .positions = position - last->position,
				  .calls = calls - last->calls };
	struct call_runs_thread *t;
	bool is_known;

	if (!begin_block(r) || !has_thread(r, last->thread) ||
	    !vec_reserve((void **)&r->byte, &r->bytes_cap, r->nbytes + RUN_BYTES, 1))
		return false;
	t = &r->thread[last->thread];
	is_known = t->block == r->nblocks;
	run.distance = last->event - (is_known ? t->next : 0);
	r->nbytes = (size_t)(put_run(r->byte + r->nbytes, &run, is_known) - r->byte);
	r->runs++;
	*t = (struct call_runs_thread){ r->nblocks, behind(last->event, last->ending, run.positions) };
	return true;
}

bool call_runs_begin(struct call_runs *r, const struct call_run *run)
{
	if (r->any && !pack_last(r, run->position, run->calls))
		return false;
	r->any = true;
	r->last = *run;
	return true;
}

/* The first event of the run at @run, of the thread; the block begins at @p. */
static uint64_t event_of(const uint8_t *p, const uint8_t *run, uint32_t thread)
{
	struct packed_run before;
	uint64_t next = 0;

	while (p < run) {
		p = get_run(p, &before);
		if (before.thread == thread)
			next = behind(next + before.distance, before.ending, before.positions);
	}
	get_run(p, &before);
	return next + before.distance;
}

bool call_runs_find(const struct call_runs *r, uint64_t position, struct call_run *ret)
{
	const size_t blocks = BISECT(r->nblocks, i, r->block[i].position <= position);
	const struct call_runs_block *b;
	const uint8_t *p, *next;
	struct packed_run run;

	if (r->any && position >= r->last.position) {
		*ret = r->last;
		return true;
	}
	if (!blocks)
		return false;
	b = &r->block[blocks - 1];
	*ret = (struct call_run){ .position = b->position, .calls = b->calls };
	p = r->byte + b->at;
	for (next = get_run(p, &run); position - ret->position >= run.positions; next = get_run(p, &run)) {
		ret->position += run.positions;
		ret->calls += run.calls;
		p = next;
	}
	ret->thread = run.thread;
	ret->ending = run.ending;
	ret->event = event_of(r->byte + b->at, p, run.thread);
	return true;
}

void call_runs_deinit(struct call_runs *r)
{
	free(r->byte);
	free(r->block);
	free(r->thread);
	*r = (struct call_runs){ 0 };
}
