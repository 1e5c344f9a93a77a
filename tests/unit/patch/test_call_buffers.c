/* Reading what threads have recorded in their buffers: order, chunks, and slots that are never written. */
#include "watchctl/patch/probe/call_buffers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define CHUNKS 8u
#define CHUNK_BYTES CALL_CHUNK_LEAST
#define CALLS_AT 0x700000000000u /* as the program has it */
#define CHUNK_AT (CALLS_AT + sizeof(struct call_shared))
#define READ_MAX 4096u

struct scene {
	struct call_shared *shared;
	struct call_buffers *buffers;
	struct call_passed read[READ_MAX];
	size_t n;
};

static void begin(struct scene *s)
{
	const size_t len = (sizeof(*s->shared) + CHUNKS * CHUNK_BYTES + 4095) / 4096 * 4096;
	struct probe_place p = { .calls_at = CALLS_AT };

	memset(s, 0, sizeof(*s));
	s->shared = aligned_alloc(4096, len);
	assert_non_null(s->shared);
	memset(s->shared, 0, len);
	s->shared->nchunks = s->shared->nfree = CHUNKS;
	s->shared->chunk_bytes = CHUNK_BYTES;
	s->shared->chunk_at = CHUNK_AT;
	p.calls = s->shared;
	s->buffers = call_buffers_new(&p);
	assert_non_null(s->buffers);
}

static void end(struct scene *s)
{
	call_buffers_free(s->buffers);
	free(s->shared);
}

static struct call_slot *slot_at(const struct scene *s, uint64_t at)
{
	return (struct call_slot *)(void *)((char *)s->shared + (at - CALLS_AT));
}

/* Takes a slot, as a trampoline or call_record() does. Returns its address; 0: there is no room. */
static uint64_t take_slot(struct scene *s, uint32_t tid)
{
	struct call_thread_place *p = &s->shared->place[tid % CALL_PLACES];
	uint64_t at;
	uint32_t i;

	p->owner = p->tid = tid;
	if (!p->last || p->next > p->last) {
		for (i = 0; i < CHUNKS && s->shared->chunk[i].state; i++)
			;
		if (i == CHUNKS)
			return 0;
		s->shared->nfree--;
		s->shared->chunk[i] =
			(struct call_chunk){ CALL_CHUNK_USED, tid, s->shared->next_number++, 0 };
		p->next = CHUNK_AT + i * CHUNK_BYTES;
		p->last = p->next + call_chunk_span(CHUNK_BYTES);
	}
	at = p->next;
	p->next += CALL_SLOT_SIZE;
	return at;
}

static void write_slot(struct scene *s, uint64_t at, uint64_t tsc, uint32_t site)
{
	*slot_at(s, at) =
		(struct call_slot){ tsc, (uint64_t)0x7ffc00001238u >> 3 << CALL_SITE_BITS | site, 0x401234 };
}

static void pass(struct scene *s, uint32_t tid, uint64_t tsc, uint32_t site)
{
	uint64_t at = take_slot(s, tid);

	assert_true(at);
	write_slot(s, at, tsc, site);
}

/* @n slots that were taken together: with @len bytes of values, each of which is @site. */
static void pass_values(struct scene *s, uint32_t tid, uint64_t tsc, uint32_t site, uint32_t n, uint32_t len)
{
	const uint64_t at = take_slot(s, tid);
	struct call_values *v = (struct call_values *)(void *)(slot_at(s, at) + 1);

	for (uint32_t i = 1; i < n; i++)
		assert_true(take_slot(s, tid) == at + i * CALL_SLOT_SIZE);
	memset(v, 0xff, (n - 1) * CALL_SLOT_SIZE);
	v->len = len;
	memset(v->bytes, (int)site, len);
	write_slot(s, at, tsc | CALL_TSC_VALUES, site);
}

static struct wc_error *take(void *ctx, const struct call_passed *c)
{
	struct scene *s = ctx;

	assert_true(s->n < READ_MAX);
	s->read[s->n++] = *c;
	return NULL;
}

static void read_all(struct scene *s, enum call_order order, bool last)
{
	bool more;

	s->n = 0;
	assert_null(call_buffers_read(s->buffers, order, last, take, s, &more));
}

static void all_of_a_slot_comes_out_of_it(void **state)
{
	struct scene s;

	begin(&s);
	pass(&s, 70000, 5, 1);
	pass(&s, 70000, 6, CALL_SITES - 1);
	read_all(&s, CALL_ORDER_THREADS, false);
	assert_int_equal(s.n, 2);
	assert_true(s.read[0].tsc == 5 && s.read[0].site == 1 && s.read[0].tid == 70000);
	assert_true(s.read[0].sp == 0x7ffc00001238u && s.read[0].return_address == 0x401234);
	assert_int_equal(s.read[1].site, CALL_SITES - 1);
	read_all(&s, CALL_ORDER_THREADS, false);
	assert_int_equal(s.n, 0);
	end(&s);
}

/* Ten times what there is room for. */
static void chunks_are_given_back_and_used_again(void **state)
{
	const uint32_t most = CHUNKS * call_chunk_slots(CHUNK_BYTES);
	struct scene s;
	uint32_t n = 0;

	begin(&s);
	for (unsigned int round = 0; round < 10; round++) {
		for (uint32_t i = 0; i < most - call_chunk_slots(CHUNK_BYTES); i++)
			pass(&s, 9, n + i, i % 3);
		read_all(&s, CALL_ORDER_THREADS, false);
		assert_int_equal(s.n, most - call_chunk_slots(CHUNK_BYTES));
		for (size_t i = 0; i < s.n; i++)
			assert_true(s.read[i].tsc == n + i && s.read[i].site == i % 3);
		n += (uint32_t)s.n;
	}
	assert_true(s.shared->nfree >= CHUNKS - 1);
	end(&s);
}

static void threads_are_in_the_order_of_time_if_that_is_wanted(void **state)
{
	struct scene s;

	begin(&s);
	for (uint32_t i = 0; i < 300; i++)
		pass(&s, 1 + i % 3, i, 0);
	read_all(&s, CALL_ORDER_TIME, false);
	assert_int_equal(s.n, 300);
	for (size_t i = 0; i < s.n; i++)
		assert_true(s.read[i].tsc == i && s.read[i].tid == 1 + i % 3);
	end(&s);
}

static void what_is_being_written_is_waited_for(void **state)
{
	struct scene s;
	uint64_t at;

	begin(&s);
	pass(&s, 1, 1, 0);
	at = take_slot(&s, 1);
	/* As the handler of a signal does that has come between. */
	for (uint32_t i = 0; i < 2 * call_chunk_slots(CHUNK_BYTES); i++)
		pass(&s, 1, 10 + i, 0);
	read_all(&s, CALL_ORDER_THREADS, false);
	assert_int_equal(s.n, 1);
	write_slot(&s, at, 2, 7);
	read_all(&s, CALL_ORDER_THREADS, false);
	assert_int_equal(s.n, 1 + 2 * call_chunk_slots(CHUNK_BYTES));
	assert_int_equal(s.read[0].site, 7);
	assert_int_equal(call_buffers_unfinished(s.buffers), 0);
	end(&s);
}

static void what_is_never_written_is_passed_over_and_counted(void **state)
{
	struct scene s;

	begin(&s);
	pass(&s, 1, 1, 0);
	take_slot(&s, 1);
	take_slot(&s, 1);
	pass(&s, 1, 2, 0);
	take_slot(&s, 1);
	read_all(&s, CALL_ORDER_THREADS, true);
	assert_int_equal(s.n, 2);
	assert_int_equal(call_buffers_unfinished(s.buffers), 3);
	end(&s);
}

/* ... also while the program runs, after a second. */
static void a_thread_is_not_waited_for_without_end(void **state)
{
	struct scene s;

	begin(&s);
	take_slot(&s, 1);
	pass(&s, 1, 2, 0);
	read_all(&s, CALL_ORDER_THREADS, false);
	assert_int_equal(s.n, 0);
	for (unsigned int i = 0; i < 1000 && !s.n; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
		read_all(&s, CALL_ORDER_THREADS, false);
	}
	assert_int_equal(s.n, 1);
	assert_int_equal(call_buffers_unfinished(s.buffers), 1);
	end(&s);
}

/* Taken, and given back by the thread, for a signal's handler has got one meanwhile; and another thread has it now. */
static void a_chunk_that_was_given_back_at_once_is_no_ones(void **state)
{
	struct scene s;

	begin(&s);
	pass(&s, 1, 1, 0);
	s.shared->chunk[1] = (struct call_chunk){ CALL_CHUNK_USED, 1, s.shared->next_number++, 0 };
	read_all(&s, CALL_ORDER_THREADS, false);
	assert_int_equal(s.n, 1);
	s.shared->chunk[1].state = CALL_CHUNK_FREE;
	pass(&s, 2, 3, 5);
	pass(&s, 1, 4, 6);
	read_all(&s, CALL_ORDER_TIME, false);
	assert_int_equal(s.n, 2);
	assert_true(s.read[0].tid == 2 && s.read[0].site == 5);
	assert_true(s.read[1].tid == 1 && s.read[1].site == 6);
	end(&s);
}

static bool is_gone(void *ctx, uint32_t tid)
{
	return tid == *(uint32_t *)ctx;
}

static void the_place_of_a_thread_that_has_ended_is_free_once_all_is_read(void **state)
{
	uint32_t ended = 1;
	struct scene s;

	begin(&s);
	pass(&s, 1, 1, 0);
	pass(&s, 2, 1, 0);
	call_buffers_sweep(s.buffers, is_gone, &ended);
	assert_int_equal(s.shared->place[1].owner, 1);
	read_all(&s, CALL_ORDER_THREADS, false);
	call_buffers_sweep(s.buffers, is_gone, &ended);
	assert_true(!s.shared->place[1].owner && !s.shared->place[1].tid && !s.shared->place[1].last);
	assert_int_equal(s.shared->place[2].owner, 2);
	assert_int_equal(s.shared->nfree, CHUNKS - 1);
	pass(&s, 1, 7, 3);
	read_all(&s, CALL_ORDER_THREADS, false);
	assert_true(s.n == 1 && s.read[0].site == 3);
	end(&s);
}

/* The memory is the program's: nothing that it writes there makes us read, or write, elsewhere. */
static void whatever_stands_there_is_read_within_bounds(void **state)
{
	struct scene s;

	srand(7);
	begin(&s);
	for (unsigned int round = 0; round < 300; round++) {
		for (unsigned int i = 0; i < 40; i++) {
			struct call_chunk *c = &s.shared->chunk[rand() % CHUNKS];

			*c = (struct call_chunk){ (uint32_t)rand() % 4, (uint32_t)rand() % 3,
						  (uint32_t)rand() % 8, 0 };
			write_slot(&s, CHUNK_AT + (uint64_t)rand() % (CHUNKS * CHUNK_BYTES / 8 - 4) * 8,
				   (uint64_t)rand(), 1);
			s.shared->place[rand() % 3].next = (uint64_t)rand() << 20;
		}
		s.shared->nchunks = s.shared->nfree = (uint32_t)rand();
		s.shared->chunk_bytes = (uint32_t)rand();
		read_all(&s, rand() % 2, rand() % 2);
		assert_true(s.n <= CHUNKS * call_chunk_slots(CHUNK_BYTES));
	}
	end(&s);
}

static void values_come_out_with_their_slot(void **state)
{
	struct scene s;

	(void)state;
	begin(&s);
	pass(&s, 9, 1, 1);
	pass_values(&s, 9, 2, 7, 4, 3 * CALL_SLOT_SIZE - sizeof(struct call_values));
	pass_values(&s, 9, 3, 8, 2, 1);
	pass(&s, 9, 4, 2);
	read_all(&s, CALL_ORDER_TIME, false);
	assert_int_equal(s.n, 4);
	assert_true(!s.read[0].values && !s.read[3].values);
	assert_true(s.read[1].tsc == 2 && s.read[1].site == 7 && s.read[1].values_len == 64);
	for (uint32_t i = 0; i < s.read[1].values_len; i++)
		assert_int_equal(s.read[1].values[i], 7);
	assert_true(s.read[2].values_len == 1 && s.read[2].values[0] == 8);
	end(&s);
}

/* The end of a chunk that is too short for values, and slots that were taken for more of them than came. */
static void slots_without_anything_are_passed_over(void **state)
{
	struct scene s;
	uint64_t at;

	(void)state;
	begin(&s);
	pass(&s, 9, 1, 1);
	at = take_slot(&s, 9);
	take_slot(&s, 9);
	*slot_at(&s, at) = (struct call_slot){ CALL_TSC_NOTHING, 1, 2 };
	pass(&s, 9, 2, 3);
	at = take_slot(&s, 9);
	while (s.shared->place[9].next <= s.shared->place[9].last)
		take_slot(&s, 9);
	*slot_at(&s, at) = (struct call_slot){ CALL_TSC_NOTHING, 1, call_chunk_slots(CHUNK_BYTES) - 4 };
	pass(&s, 9, 3, 4);
	read_all(&s, CALL_ORDER_THREADS, false);
	assert_int_equal(s.n, 3);
	assert_true(s.read[1].site == 3 && s.read[2].site == 4);
	assert_int_equal(call_buffers_unfinished(s.buffers), 0);
	end(&s);
}

/* Values of an event that never became complete are not taken for events. */
static void values_that_were_never_completed_are_passed_over_together(void **state)
{
	struct scene s;
	uint64_t at;

	(void)state;
	begin(&s);
	at = take_slot(&s, 9);
	take_slot(&s, 9);
	take_slot(&s, 9);
	slot_at(&s, at)->return_address = CALL_TAKEN | 3;
	memset(slot_at(&s, at) + 1, 0x11, 2 * CALL_SLOT_SIZE);
	pass(&s, 9, 5, 6);
	read_all(&s, CALL_ORDER_THREADS, false);
	assert_int_equal(s.n, 0);
	read_all(&s, CALL_ORDER_THREADS, true);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.read[0].site, 6);
	end(&s);
}

static void equal_plans_are_kept_once(void **state)
{
	union {
		struct call_plan plan;
		uint8_t bytes[CALL_PLAN_MOST];
	} a = { .plan = { .n = 2, .slots = 4 } };
	struct call_plans *plans = calloc(1, sizeof(*plans));
	struct probe_place p = { .calls_at = CALLS_AT, .plans = plans };
	struct call_buffers *b;
	struct scene s;

	(void)state;
	begin(&s);
	assert_non_null(plans);
	p.calls = s.shared;
	b = call_buffers_new(&p);
	assert_non_null(b);
	a.plan.fetch[1].len = 8;
	assert_true(call_buffers_plan(b, 1, &a.plan) && call_buffers_plan(b, 2, &a.plan));
	a.plan.fetch[1].len = 4;
	assert_true(call_buffers_plan(b, 3, &a.plan));
	assert_true(plans->of[1] == plans->of[2] && plans->of[3] != plans->of[1]);
	assert_memory_equal(plans->bytes + plans->of[3], &a.plan,
			    sizeof(a.plan) + 2 * sizeof(struct call_fetch));
	assert_true(s.shared->off[1] == CALL_VALUED && s.shared->off[3] == CALL_VALUED);
	assert_false(call_buffers_plan(b, CALL_SITES, &a.plan));
	for (uint32_t i = 4; call_buffers_plan(b, i, &a.plan); i++)
		a.plan.fetch[0].offset = (int32_t)i;
	assert_true(plans->of[3] < CALL_PLANS_BYTES);
	call_buffers_free(b);
	end(&s);
	free(plans);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_a_slot_comes_out_of_it),
		cmocka_unit_test(chunks_are_given_back_and_used_again),
		cmocka_unit_test(threads_are_in_the_order_of_time_if_that_is_wanted),
		cmocka_unit_test(what_is_being_written_is_waited_for),
		cmocka_unit_test(what_is_never_written_is_passed_over_and_counted),
		cmocka_unit_test(a_thread_is_not_waited_for_without_end),
		cmocka_unit_test(a_chunk_that_was_given_back_at_once_is_no_ones),
		cmocka_unit_test(the_place_of_a_thread_that_has_ended_is_free_once_all_is_read),
		cmocka_unit_test(values_come_out_with_their_slot),
		cmocka_unit_test(slots_without_anything_are_passed_over),
		cmocka_unit_test(values_that_were_never_completed_are_passed_over_together),
		cmocka_unit_test(equal_plans_are_kept_once),
		cmocka_unit_test(whatever_stands_there_is_read_within_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
