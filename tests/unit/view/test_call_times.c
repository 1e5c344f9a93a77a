/* Times of calls that are traced now: totals with recursion, self time, calls that never ended, quantiles, the mark of what was switched off. */
#include "tests/unit/view_output.h"

#include "watchctl/view/table/call_times.h"
#include "watchctl/view/table/duration_spread.h"

enum { F_OUTER, F_INNER, F_NAMELESS };

static void put(struct call_times *t, struct trace_event e)
{
	assert_null(call_times_put(t, &e));
}

static void add_functions(struct call_times *t)
{
	put(t, (struct trace_event){ .type = EVENT_FUNCTION,
				     .function = { .id = F_OUTER, .name = "outer", .module = "/bin/app" } });
	put(t, (struct trace_event){ .type = EVENT_FUNCTION,
				     .function = { .id = F_INNER, .name = "inner", .module = "/bin/app" } });
	put(t, (struct trace_event){
		       .type = EVENT_FUNCTION,
		       .function = { .id = F_NAMELESS, .module = "/bin/app", .address = 0x1234 } });
}

static void enter(struct call_times *t, uint64_t time_ns, int32_t tid, uint64_t call, uint32_t function)
{
	put(t, (struct trace_event){ .type = EVENT_CALL,
				     .time_ns = time_ns,
				     .call = { .call = call, .tid = tid, .function = function } });
}

static void leave(struct call_times *t, uint64_t time_ns, int32_t tid, uint64_t call, enum return_how how)
{
	put(t, (struct trace_event){ .type = EVENT_RETURN,
				     .time_ns = time_ns,
				     .ret = { .call = call, .tid = tid, .how = how } });
}

static void self_time_is_without_that_of_traced_callees_of_the_same_thread(void **state)
{
	struct call_times t = { 0 };

	add_functions(&t);
	enter(&t, 1000, 1, 1, F_OUTER);
	enter(&t, 1100, 1, 2, F_INNER);
	enter(&t, 1150, 2, 3, F_INNER); /* another thread: nothing of outer's */
	leave(&t, 1400, 1, 2, RETURN_RETURNED);
	enter(&t, 1500, 1, 4, F_INNER);
	leave(&t, 1600, 1, 4, RETURN_RETURNED);
	leave(&t, 2000, 1, 1, RETURN_RETURNED);
	assert_int_equal(t.calls, 4);
	assert_int_equal(t.function[F_OUTER]->total_ns, 1000);
	assert_int_equal(t.function[F_OUTER]->self_ns, 600);
	assert_int_equal(t.function[F_INNER]->calls, 3);
	assert_int_equal(t.function[F_INNER]->open, 1);
	assert_int_equal(t.function[F_INNER]->timed, 2);
	assert_int_equal(t.function[F_INNER]->total_ns, 400);
	assert_int_equal(t.function[F_INNER]->longest_ns, 300);
	assert_int_equal(call_times_mean(t.function[F_INNER]), 200);
	call_times_deinit(&t);
}

/* outer -> inner -> outer -> outer: its time is that of the first call; its mean is of all three. */
static void recursion_counts_once_in_the_total(void **state)
{
	struct call_times t = { 0 };

	add_functions(&t);
	enter(&t, 0, 1, 1, F_OUTER);
	enter(&t, 100, 1, 2, F_INNER);
	enter(&t, 200, 1, 3, F_OUTER);
	enter(&t, 300, 1, 4, F_OUTER);
	leave(&t, 400, 1, 4, RETURN_RETURNED);
	leave(&t, 600, 1, 3, RETURN_RETURNED);
	leave(&t, 900, 1, 2, RETURN_RETURNED);
	leave(&t, 1000, 1, 1, RETURN_RETURNED);
	assert_int_equal(t.function[F_OUTER]->total_ns, 1000);
	assert_int_equal(t.function[F_OUTER]->self_ns, 200 + 300 + 100); /* 1000 - 800, 400 - 100, 100 */
	assert_int_equal(call_times_mean(t.function[F_OUTER]), 500);
	assert_int_equal(t.function[F_INNER]->total_ns, 800);
	assert_int_equal(t.function[F_INNER]->self_ns, 400);
	enter(&t, 2000, 1, 5, F_OUTER);
	leave(&t, 2050, 1, 5, RETURN_RETURNED);
	assert_int_equal(t.function[F_OUTER]->total_ns, 1050);
	call_times_deinit(&t);
}

static void only_calls_that_returned_are_timed(void **state)
{
	struct call_times t = { 0 };

	add_functions(&t);
	enter(&t, 0, 1, 1, F_OUTER);
	enter(&t, 100, 1, 2, F_INNER);
	leave(&t, 300, 1, 2, RETURN_LONGJMP);
	leave(&t, 500, 1, 1, RETURN_RETURNED);
	enter(&t, 600, 1, 3, F_INNER);
	leave(&t, 700, 1, 3, RETURN_NEVER);
	assert_int_equal(t.function[F_INNER]->calls, 2);
	assert_int_equal(t.function[F_INNER]->open, 1);
	assert_int_equal(t.function[F_INNER]->timed, 0);
	assert_int_equal(t.function[F_INNER]->total_ns, 0);
	assert_int_equal(call_times_mean(t.function[F_INNER]), 0);
	assert_int_equal(call_times_quantile(t.function[F_INNER], 990), 0);
	assert_int_equal(t.function[F_OUTER]->self_ns, 300);
	call_times_deinit(&t);
}

/* A function that made a tail call may be reported to have ended before the one that it jumped to. */
static void ends_may_come_outermost_first(void **state)
{
	struct call_times t = { 0 };

	add_functions(&t);
	enter(&t, 0, 1, 1, F_OUTER);
	enter(&t, 100, 1, 2, F_INNER);
	leave(&t, 500, 1, 1, RETURN_RETURNED);
	leave(&t, 500, 1, 2, RETURN_RETURNED);
	leave(&t, 500, 1, 2, RETURN_RETURNED); /* of a call that is not open: nothing */
	assert_int_equal(t.function[F_OUTER]->total_ns, 500);
	assert_int_equal(t.function[F_INNER]->total_ns, 400);
	assert_int_equal(t.function[F_INNER]->open, 0);
	call_times_deinit(&t);
}

/* 99 calls of 10 ns and one of 1000: 99 of 100 took 10 at most. Of 98 and 2, the second longest is 1000. */
static void the_99th_percentile_is_what_one_of_a_hundred_may_exceed(void **state)
{
	struct call_times t = { 0 };
	uint64_t now = 0;

	add_functions(&t);
	for (uint64_t i = 0; i < 100; i++, now += 2000) {
		enter(&t, now, 1, i + 1, F_OUTER);
		leave(&t, now + (i == 50 ? 1000 : 10), 1, i + 1, RETURN_RETURNED);
		enter(&t, now + 1000, 1, i + 1000, F_INNER);
		leave(&t, now + 1000 + (i >= 98 ? 1000 : 10), 1, i + 1000, RETURN_RETURNED);
	}
	assert_int_equal(call_times_quantile(t.function[F_OUTER], 990), 10);
	assert_int_equal(call_times_quantile(t.function[F_INNER], 990), 1000);
	assert_int_equal(t.function[F_OUTER]->longest_ns, 1000);
	call_times_deinit(&t);
}

/* 0x1234567 lies in the step from 0x1200000 to, not including, 0x1300000. */
static void a_quantile_is_the_end_of_its_step(void **state)
{
	uint64_t *spread = NULL;

	assert_true(duration_spread_add(&spread, 0x1234567));
	assert_true(duration_spread_add(&spread, 15));
	assert_int_equal(duration_spread_quantile(spread, 2, UINT64_MAX, 1000), 0x12fffff);
	assert_int_equal(duration_spread_quantile(spread, 2, 0x1234567, 1000), 0x1234567);
	assert_int_equal(duration_spread_quantile(spread, 2, UINT64_MAX, 500), 15);
	free(spread);
}

static void threads_that_have_gone_take_no_space(void **state)
{
	struct call_times t = { 0 };

	add_functions(&t);
	enter(&t, 0, 1, 1, F_OUTER);
	for (int32_t tid = 2; tid < 10000; tid++) {
		enter(&t, 10, tid, (uint64_t)tid, F_INNER);
		leave(&t, 20, tid, (uint64_t)tid, RETURN_RETURNED);
	}
	leave(&t, 100, 1, 1, RETURN_RETURNED);
	assert_true(t.by_tid.n <= 64);
	assert_int_equal(t.function[F_INNER]->total_ns, 99980);
	assert_int_equal(t.function[F_OUTER]->total_ns, 100);
	call_times_deinit(&t);
}

static void a_function_is_marked_when_the_tracer_must_have_switched_it_off(void **state)
{
	struct call_times t = { .max_rate = 2 };

	add_functions(&t);
	for (uint64_t i = 1; i <= 2; i++) {
		enter(&t, i * 400000000, 1, i, F_OUTER); /* in less than a second */
		leave(&t, i * 400000000, 1, i, RETURN_RETURNED);
		enter(&t, i * 1000000000, 1, i + 10, F_INNER); /* a second apart */
		leave(&t, i * 1000000000, 1, i + 10, RETURN_RETURNED);
	}
	assert_true(call_times_is_off(&t, t.function[F_OUTER], 1));
	assert_false(call_times_is_off(&t, t.function[F_OUTER], 0));
	assert_false(call_times_is_off(&t, t.function[F_INNER], 1));
	put(&t,
	    (struct trace_event){
		    .type = EVENT_NOTE,
		    .note.text =
			    "outer was called so often that it was switched off: 71 of its calls are not recorded" });
	assert_true(call_times_is_off(&t, t.function[F_OUTER], 0));
	assert_int_equal(t.function[F_OUTER]->not_recorded, 71);
	assert_int_equal(t.function[F_INNER]->not_recorded, 0);
	call_times_deinit(&t);
}

static void functions_without_a_name_are_called_by_their_place(void **state)
{
	struct call_times t = { .max_rate = 1 };

	add_functions(&t);
	assert_string_equal(t.function[F_NAMELESS]->name, "/bin/app+0x1234");
	enter(&t, 0, 1, 1, F_NAMELESS);
	put(&t,
	    (struct trace_event){
		    .type = EVENT_NOTE,
		    .note.text =
			    "the function at /bin/app+0x1234 was called so often that it was switched off: 5 of its calls are not recorded" });
	assert_int_equal(t.function[F_NAMELESS]->not_recorded, 5);
	call_times_deinit(&t);
}

static void rows_are_sorted_by_a_column(void **state)
{
	struct call_times t = { 0 };

	add_functions(&t);
	enter(&t, 0, 1, 1, F_OUTER);
	enter(&t, 10, 1, 2, F_INNER);
	leave(&t, 20, 1, 2, RETURN_RETURNED);
	enter(&t, 30, 1, 3, F_INNER);
	leave(&t, 40, 1, 3, RETURN_RETURNED);
	leave(&t, 100, 1, 1, RETURN_RETURNED);
	call_times_sort(&t, CALL_TIMES_TOTAL, 0, 100);
	assert_string_equal(t.function[0]->name, "outer");
	call_times_sort(&t, CALL_TIMES_CALLS, 0, 100);
	assert_string_equal(t.function[0]->name, "inner");
	call_times_sort(&t, CALL_TIMES_NAME, 0, 100);
	assert_string_equal(t.function[0]->name, "/bin/app+0x1234");
	assert_string_equal(t.function[2]->name, "outer");
	call_times_deinit(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(self_time_is_without_that_of_traced_callees_of_the_same_thread),
		cmocka_unit_test(recursion_counts_once_in_the_total),
		cmocka_unit_test(only_calls_that_returned_are_timed),
		cmocka_unit_test(ends_may_come_outermost_first),
		cmocka_unit_test(the_99th_percentile_is_what_one_of_a_hundred_may_exceed),
		cmocka_unit_test(a_quantile_is_the_end_of_its_step),
		cmocka_unit_test(threads_that_have_gone_take_no_space),
		cmocka_unit_test(a_function_is_marked_when_the_tracer_must_have_switched_it_off),
		cmocka_unit_test(functions_without_a_name_are_called_by_their_place),
		cmocka_unit_test(rows_are_sorted_by_a_column),
	};

	return cmocka_run_group_tests_name("call_times", tests, NULL, NULL);
}
