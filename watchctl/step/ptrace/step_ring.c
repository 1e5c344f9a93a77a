#include "watchctl/step/ptrace/step_ring.h"

#include <string.h>

#define ALIGN(n) (((n) + 7u) & ~7u)

static uint32_t fetched_size(uint32_t n, uint32_t nbytes)
{
	return ALIGN(5 * n + nbytes); /* state, len, at */
}

uint32_t step_wire_size(const struct step_record *r)
{
	uint32_t size = sizeof(struct wire_step);

	if (r->call)
		size += ALIGN((uint32_t)sizeof(*r->call));
	if (r->fetched)
		size += fetched_size(r->fetched->n, r->fetched->nbytes);
	if (r->stack)
		size += ALIGN(r->stack_len);
	if (r->why)
		size += ALIGN((uint32_t)strlen(r->why) + 1);
	return size;
}

static uint8_t *step_ring_put(uint8_t *at, const void *bytes, size_t n)
{
	memcpy(at, bytes, n);
	return at + n;
}

static void put_fetched(uint8_t *at, const struct fetched *f)
{
	at = step_ring_put(at, f->state, f->n);
	at = step_ring_put(at, f->len, 2u * f->n);
	at = step_ring_put(at, f->at, 2u * f->n);
	step_ring_put(at, f->bytes, f->nbytes);
}

void step_wire_put(struct wire_step *w, const struct step_record *r)
{
	uint8_t *at = (uint8_t *)(w + 1);

	*w = (struct wire_step){ .size = step_wire_size(r), .record = *r };
	if (r->call) {
		w->flags |= WIRE_STEP_CALL;
		step_ring_put(at, r->call, sizeof(*r->call));
		at += ALIGN(sizeof(*r->call));
	}
	if (r->fetched) {
		w->flags |= WIRE_STEP_FETCHED;
		w->nfetched = r->fetched->n;
		w->nbytes = r->fetched->nbytes;
		put_fetched(at, r->fetched);
		at += fetched_size(w->nfetched, w->nbytes);
	}
	if (r->stack) {
		w->nstack = r->stack_len;
		step_ring_put(at, r->stack, r->stack_len);
		at += ALIGN(r->stack_len);
	}
	if (r->why) {
		w->nwhy = (uint32_t)strlen(r->why) + 1;
		step_ring_put(at, r->why, w->nwhy);
	}
}

struct wire_step *step_ring_room(struct step_box *box, uint32_t size, uint64_t *ret_at)
{
	uint64_t mask = STEP_RING_SIZE - 1, head = box->head;
	uint64_t left = STEP_RING_SIZE - (head & mask);
	uint64_t pad = left < size ? left : 0;
	uint64_t tail = __atomic_load_n(&box->tail, __ATOMIC_ACQUIRE);
	char *ring = step_box_ring(box);

	if (head + pad + size - tail > STEP_RING_SIZE)
		return NULL;
	if (pad) {
		/* Sizes are multiples of 8, so these two words always have a place. */
		struct wire_step *filler = (void *)(ring + (head & mask));

		filler->size = (uint32_t)pad;
		filler->flags = WIRE_STEP_PADDING;
		head += pad;
	}
	*ret_at = head;
	return (void *)(ring + (head & mask));
}

void step_ring_commit(struct step_box *box, uint64_t at, uint32_t size)
{
	__atomic_store_n(&box->head, at + size, __ATOMIC_RELEASE);
}

static const uint8_t *take_fetched(const uint8_t *at, const struct wire_step *w, struct fetched *ret)
{
	uint32_t n = w->nfetched, size = fetched_size(n, w->nbytes);

	ret->n = n;
	ret->nbytes = w->nbytes;
	memcpy(ret->state, at, n);
	memcpy(ret->len, at + n, 2u * n);
	memcpy(ret->at, at + 3u * n, 2u * n);
	memcpy(ret->bytes, at + 5u * n, w->nbytes);
	return at + size;
}

bool step_ring_read(const struct step_box *box, struct step_unwired *ret)
{
	uint64_t head = __atomic_load_n(&box->head, __ATOMIC_ACQUIRE), at = box->tail;
	const char *ring = (const char *)box + STEP_RING_OFFSET;
	const struct wire_step *w;
	const uint8_t *p;

	do {
		if (at == head)
			return false;
		w = (const void *)(ring + (at & (STEP_RING_SIZE - 1)));
		at += w->size;
	} while (w->flags & WIRE_STEP_PADDING);
	p = (const uint8_t *)(w + 1);
	ret->next = at;
	ret->record = w->record;
	ret->record.call = NULL;
	ret->record.fetched = NULL;
	ret->record.stack = NULL;
	ret->record.why = NULL;
	if (w->flags & WIRE_STEP_CALL) {
		memcpy(&ret->call, p, sizeof(ret->call));
		ret->record.call = &ret->call;
		p += ALIGN(sizeof(ret->call));
	}
	if (w->flags & WIRE_STEP_FETCHED) {
		p = take_fetched(p, w, &ret->fetched);
		ret->record.fetched = &ret->fetched;
	}
	if (w->nstack) {
		ret->record.stack = p;
		p += ALIGN(w->nstack);
	}
	if (w->nwhy)
		ret->record.why = (const char *)p;
	return true;
}
