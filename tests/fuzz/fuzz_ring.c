/*
 * The target owns the memory of the record ring and may write anything there, at any time: what the
 * controller takes out is whole and inside its own copy, and a ring that lies is given up, not followed.
 *
 * Input: 1 byte of flags, 2 bytes of `head`, the rest is the ring. Where the flags say so, every record that
 * the sizes lead to gets the commit word that a handler would write: noise alone never would.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/engine/intake/handler_ring.h"

#define RING_SIZE 4096u
#define AREA_SIZE (WIRE_CONTROL_SIZE + RING_SIZE)
#define KEY 0x1122334455667788ull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile unsigned int sum; /* so that the reads are made */

static void require(bool claim)
{
	if (!claim)
		abort();
}

static void commit(uint8_t *ring, uint64_t position)
{
	uint64_t word = position ^ KEY;

	memcpy(ring + position % RING_SIZE, &word, sizeof(word));
}

/* Follows the sizes, as a handler would have laid the records. */
static void commit_all(uint8_t *ring)
{
	uint64_t position = 0;

	while (position < RING_SIZE) {
		uint32_t record_size;

		commit(ring, position);
		memcpy(&record_size, ring + position + offsetof(struct wire_record, size),
		       sizeof(record_size));
		if (!record_size || record_size % 16 || record_size > RING_SIZE - position)
			return;
		position += record_size;
	}
}

/* Touches every byte that the engine would use. */
static unsigned int sum_of(const struct wire_record *r)
{
	uint64_t extent = sizeof(*r) + 8ull * r->nframes;
	const uint8_t *p = (const uint8_t *)r;
	unsigned int s = 0;

	if (r->walk_end == WALK_END_UNKNOWN_PC)
		extent += sizeof(struct regs) + r->raw_len;
	require(r->nframes >= 1 && r->nframes <= WIRE_FRAMES && r->watch < WIRE_WATCHES);
	require(r->raw_len <= WIRE_RAW_MAX && extent <= r->size);
	for (uint64_t i = 0; i < extent; i++)
		s += p[i];
	return s;
}

static void drain(struct ring *ring, const struct wire_control *control)
{
	unsigned int taken = 0;

	for (;;) {
		const struct wire_record *r = NULL;
		enum ring_result result = ring_next(ring, &r);

		require(result <= RING_CORRUPT); /* the memory is there: it cannot be gone */
		if (result != RING_RECORD)
			break;
		sum = sum_of(r);
		require(++taken <= RING_SIZE / 16);
	}
	ring_release(ring);
	require(control->tail == ring->tail);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_control *control;
	struct wire_memory memory = { .size = AREA_SIZE };
	struct wire_area area;
	struct ring ring;
	size_t n;

	if (size < 3)
		return 0;
	/* On the heap, and exactly as large as it is: a read beyond is seen. */
	control = aligned_alloc(64, AREA_SIZE);
	memory.base = (uint8_t *)control;
	area = wire_area_in(&memory);
	require(control && ring_init(&ring, &area, WIRE_CONTROL_SIZE, RING_SIZE, KEY));
	memset(control, 0, AREA_SIZE);
	control->head = (uint64_t)(data[1] | data[2] << 8) & ~15ull;
	n = size - 3 < RING_SIZE ? size - 3 : RING_SIZE;
	memcpy((uint8_t *)control + WIRE_CONTROL_SIZE, data + 3, n);
	if (data[0] & 1)
		commit_all((uint8_t *)control + WIRE_CONTROL_SIZE);
	else
		commit((uint8_t *)control + WIRE_CONTROL_SIZE, 0);
	drain(&ring, control);
	ring_deinit(&ring);
	free(control);
	return 0;
}
