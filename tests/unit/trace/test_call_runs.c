/* Packed runs give back what was put in: every position, where threads take turns in any way. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "watchctl/trace/calls/call_runs.h"

#define RUNS 5000u

/* xorshift64* */
static uint64_t draw(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1du;
}

static void assert_found(const struct call_runs *r, uint64_t position, const struct call_run *run)
{
	struct call_run found;

	assert_true(call_runs_find(r, position, &found));
	assert_int_equal(found.position, run->position);
	assert_int_equal(found.event, run->event);
	assert_int_equal(found.calls, run->calls);
	assert_int_equal(found.thread, run->thread);
	assert_int_equal(found.ending, run->ending);
}

/* One run of @thread behind @last, as the merge makes them; one in four is longer, one in 16 leaves events out or is of ends. */
static struct call_run next_run(const struct call_run *last, uint64_t *state, uint64_t *next,
				uint32_t threads)
{
	const uint64_t x = draw(state);
	const uint64_t positions = x % 4 ? 1 : 1 + (x >> 8) % 300, calls = (x >> 20) % (positions + 1);
	struct call_run run = { .position = last->position + positions, .calls = last->calls + calls };

	next[last->thread] = last->event + (last->ending ? 0 : positions);
	run.thread = (uint32_t)((x >> 32) % threads);
	run.ending = (x >> 56) % 16 ? 0 : 2;
	run.event = next[run.thread] + ((x >> 60) % 16 ? 0 : (x >> 4) % 100000);
	return run;
}

static void check_threads(uint32_t threads, uint64_t seed)
{
	struct call_run *run = calloc(RUNS, sizeof(*run));
	uint64_t *next = calloc(threads, sizeof(*next)), state = seed;
	struct call_runs r = { 0 };

	assert_non_null(run);
	assert_non_null(next);
	run[0] = (struct call_run){ .position = 1 };
	for (size_t i = 0; i < RUNS; i++) {
		if (i)
			run[i] = next_run(&run[i - 1], &state, next, threads);
		assert_true(call_runs_begin(&r, &run[i]));
	}
	for (size_t i = 0; i + 1 < RUNS; i++)
		for (uint64_t position = run[i].position; position < run[i + 1].position; position++)
			assert_found(&r, position, &run[i]);
	assert_found(&r, run[RUNS - 1].position, &run[RUNS - 1]);
	assert_found(&r, run[RUNS - 1].position + 1000, &run[RUNS - 1]);
	call_runs_deinit(&r);
	free(next);
	free(run);
}

static void every_position_is_found(void **state)
{
	(void)state;
	check_threads(1, 1);
	check_threads(4, 2);
	check_threads(40, 3);
	check_threads(10000, 4);
}

static void what_is_before_the_first_is_not_found(void **state)
{
	struct call_runs r = { 0 };
	struct call_run found;

	(void)state;
	assert_false(call_runs_find(&r, 1, &found));
	assert_true(call_runs_begin(&r, &(struct call_run){ .position = 5, .event = 7 }));
	assert_false(call_runs_find(&r, 4, &found));
	assert_true(call_runs_begin(&r, &(struct call_run){ .position = 6, .event = 9 }));
	assert_false(call_runs_find(&r, 4, &found));
	assert_found(&r, 5, &(struct call_run){ .position = 5, .event = 7 });
	call_runs_deinit(&r);
}

/* Four threads that take turns, one event each: this is for what the packing is there. */
static void turns_of_one_event_take_little_more_than_a_byte(void **state)
{
	struct call_runs r = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 100000; i++)
		assert_true(call_runs_begin(
			&r, &(struct call_run){
				    .position = i + 1, .event = i / 4, .calls = i / 2, .thread = i % 4 }));
	assert_true(r.nbytes < 130000);
	call_runs_deinit(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_position_is_found),
		cmocka_unit_test(what_is_before_the_first_is_not_found),
		cmocka_unit_test(turns_of_one_event_take_little_more_than_a_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
