/* Which thread a number was when. */
#include "tests/unit/flow/flow_events.h"

#include "watchctl/base/cleanup.h"

static void named(struct flow_threads *t, uint64_t ns, int32_t tid, int32_t pid, const char *comm)
{
	struct flow_event e = { .time_ns = ns, .id = FLOW_NAME, .other = tid, .pid = pid };

	snprintf(e.comm, sizeof(e.comm), "%s", comm);
	assert_true(flow_threads_feed(t, &e));
}

static void feed(struct flow_threads *t, struct flow_event e)
{
	assert_true(flow_threads_feed(t, &e));
}

static void test_a_thread_has_its_name_of_the_time(void **state)
{
	struct flow_threads t = { 0 };

	named(&t, 1, 10, 10, "sh");
	named(&t, 5, 10, 10, "app");
	assert_int_equal(t.n, 1);
	assert_string_equal(flow_threads_comm(&t, 0, 4), "sh");
	assert_string_equal(flow_threads_comm(&t, 0, 5), "app");
	assert_string_equal(flow_threads_comm(&t, 0, 0), "sh");
	flow_threads_deinit(&t);
	(void)state;
}

static void test_a_number_used_again_is_another_incarnation(void **state)
{
	struct flow_threads t = { 0 };

	named(&t, 1, 10, 10, "first");
	feed(&t, (struct flow_event){ .time_ns = 5, .id = FLOW_EXIT, .tid = 10 });
	feed(&t, (struct flow_event){ .time_ns = 6, .id = FLOW_SWITCH, .tid = 10, .why = FLOW_DEAD });
	feed(&t, (struct flow_event){ .time_ns = 9, .id = FLOW_FORK, .tid = 1, .other = 10 });
	named(&t, 9, 10, 10, "second");
	assert_int_equal(t.n, 2);
	assert_int_equal(flow_threads_at(&t, 10, 6), 0);
	assert_int_equal(flow_threads_at(&t, 10, 7), FLOW_NO_THREAD);
	assert_int_equal(flow_threads_at(&t, 10, 9), 1);
	assert_string_equal(flow_threads_comm(&t, 1, 9), "second");
	flow_threads_deinit(&t);
	(void)state;
}

static void test_another_process_by_the_number_is_another_incarnation_without_an_exit(void **state)
{
	struct flow_threads t = { 0 };

	named(&t, 1, 11, 10, "worker");
	named(&t, 5, 11, 11, "other");
	assert_int_equal(t.n, 2);
	assert_int_equal(t.thread[0].end_ns, 5);
	flow_threads_deinit(&t);
	(void)state;
}

static void test_a_thread_that_executes_takes_its_process_s_number(void **state)
{
	struct flow_threads t = { 0 };

	named(&t, 1, 10, 10, "app");
	named(&t, 1, 11, 10, "worker");
	feed(&t, (struct flow_event){ .time_ns = 5, .id = FLOW_EXEC, .tid = 10, .other = 11 });
	named(&t, 5, 10, 10, "next");
	assert_int_equal(t.n, 3);
	assert_int_equal(flow_threads_at(&t, 11, 6), FLOW_NO_THREAD);
	assert_int_equal(flow_threads_at(&t, 10, 6), 2);
	assert_int_equal(t.thread[2].pid, 10);
	flow_threads_deinit(&t);
	(void)state;
}

static void test_a_thread_is_meant_by_name_and_either_number(void **state)
{
	struct flow_threads t = { 0 };

	named(&t, 1, 11, 10, "app");
	named(&t, 1, 12, 12, "kworker/0:1");
	assert_true(flow_threads_match(&t, 0, "app/11", 1));
	assert_true(flow_threads_match(&t, 0, "app/10", 1));
	assert_true(flow_threads_match(&t, 0, "app", 1));
	assert_true(flow_threads_match(&t, 0, "10", 1));
	assert_false(flow_threads_match(&t, 0, "app/12", 1));
	assert_false(flow_threads_match(&t, 0, "ap/11", 1));
	assert_true(flow_threads_match(&t, 1, "kworker/0:1", 1));
	assert_true(flow_threads_match(&t, 1, "kworker/0:1/12", 1));
	flow_threads_deinit(&t);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_thread_has_its_name_of_the_time),
		cmocka_unit_test(test_a_number_used_again_is_another_incarnation),
		cmocka_unit_test(test_another_process_by_the_number_is_another_incarnation_without_an_exit),
		cmocka_unit_test(test_a_thread_that_executes_takes_its_process_s_number),
		cmocka_unit_test(test_a_thread_is_meant_by_name_and_either_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
