/* The controller's end of the ring: the other end belongs to a program that may lie. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/engine/intake/handler_ring.h"

#define SIZE 65536u
#define OFFSET WIRE_CONTROL_SIZE
#define KEY 0x1122334455667788ull

struct fixture {
	struct wire_memory memory;
	struct wire_area area;
	struct wire_control *ctl;
	struct ring ring;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->memory = (struct wire_memory){ calloc(1, OFFSET + SIZE), OFFSET + SIZE };
	f->area = wire_area_in(&f->memory);
	f->ctl = (void *)f->memory.base;
	assert_true(ring_init(&f->ring, &f->area, OFFSET, SIZE, KEY));
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	ring_deinit(&f->ring);
	free(f->memory.base);
	free(f);
	return 0;
}

static struct wire_record *append(struct fixture *f, uint32_t size)
{
	uint64_t pos = f->ctl->head;
	struct wire_record *r = (void *)((char *)f->memory.base + OFFSET + (pos & (SIZE - 1)));

	memset(r, 0, size);
	r->size = size;
	r->nframes = 1;
	r->commit = pos ^ KEY;
	f->ctl->head = pos + size;
	return r;
}

static const uint32_t plain = 512; /* divides SIZE: no padding is needed */
_Static_assert(sizeof(struct wire_record) + 8 <= 512, "holds a record of one frame");

static enum ring_result next(struct fixture *f)
{
	const struct wire_record *r;

	return ring_next(&f->ring, &r);
}

static void records_come_out_in_order_and_their_space_goes_back(void **state)
{
	struct fixture *f = *state;
	const struct wire_record *r;
	uint64_t i;

	for (i = 0; i < 1000; i++) {
		if (SIZE - (f->ctl->head & (SIZE - 1)) < plain) {
			struct wire_record *pad = append(f, SIZE - (uint32_t)(f->ctl->head & (SIZE - 1)));

			pad->flags = WIRE_PADDING;
		}
		append(f, plain)->time = i;
		assert_int_equal(ring_next(&f->ring, &r), RING_RECORD);
		assert_int_equal(r->time, i);
		ring_release(&f->ring);
		assert_int_equal(f->ctl->tail, f->ctl->head);
	}
	assert_int_equal(next(f), RING_EMPTY);
}

static void a_record_that_is_not_whole_yet_is_waited_for(void **state)
{
	struct fixture *f = *state;
	struct wire_record *r = append(f, plain);

	r->commit = 0;
	assert_int_equal(next(f), RING_BUSY);
	r->commit = 0 ^ KEY;
	assert_int_equal(next(f), RING_RECORD);
}

static void lies_about_size_and_counts_are_found_out(void **state)
{
	struct fixture *f = *state;
	static const struct {
		uint32_t size, nframes, raw_len, watch, walk_end;
	} lie[] = {
		{ 0, 1, 0, 0, 0 },
		{ 8, 1, 0, 0, 0 },
		{ 16, 1, 0, 0, 0 },
		{ plain + 1, 1, 0, 0, 0 },
		{ 0xfffffff0, 1, 0, 0, 0 },
		{ SIZE * 2, 1, 0, 0, 0 },
		{ plain, 0, 0, 0, 0 },
		{ plain, 0xffffffff, 0, 0, 0 },
		{ plain, WIRE_FRAMES + 1, 0, 0, 0 },
		{ plain, 1, 0xfffffff8, 0, WALK_END_UNKNOWN_PC },
		{ plain, 24, 0, 0, WALK_END_UNKNOWN_PC },
		{ plain, 1, 7, 0, 0 },
		{ plain, 1, 0, WIRE_WATCHES, 0 },
	};
	size_t i;

	for (i = 0; i < sizeof(lie) / sizeof(lie[0]); i++) {
		struct wire_record *r;

		f->ctl->head = f->ring.tail = 0;
		r = append(f, plain);
		r->size = lie[i].size;
		r->nframes = lie[i].nframes;
		r->raw_len = lie[i].raw_len;
		r->watch = (uint8_t)lie[i].watch;
		r->walk_end = (uint8_t)lie[i].walk_end;
		assert_int_equal(next(f), RING_CORRUPT);
	}
}

static void a_head_beyond_the_ring_is_no_endless_loop(void **state)
{
	struct fixture *f = *state;

	f->ctl->head = UINT64_MAX - 15;
	assert_int_equal(next(f), RING_CORRUPT);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(records_come_out_in_order_and_their_space_goes_back),
		CASE(a_record_that_is_not_whole_yet_is_waited_for),
		CASE(lies_about_size_and_counts_are_found_out),
		CASE(a_head_beyond_the_ring_is_no_endless_loop),
	};

	return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
