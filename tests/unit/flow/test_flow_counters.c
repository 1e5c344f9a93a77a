/* The graph of causes where the taker need not wait, or is woken before its wait is told: nothing else shows who let it go on. */
#include "tests/unit/flow/flow_events.h"

#include "watchctl/base/cleanup.h"

#define REAL_TIME 40u /* a signal that is queued */

static void check(struct flow_graph *g, const struct flow_edge *e, enum flow_edge_kind kind, int32_t from,
		  uint64_t from_ns)
{
	assert_non_null(e);
	assert_int_equal(e->kind, kind);
	assert_int_equal(tid_of(g, e->from), from);
	assert_int_equal(e->from_ns, from_ns);
}

static void sends(struct flow_graph *g, uint64_t ns, uint32_t signal)
{
	EV(ns, 0, 10, FLOW_SIGNAL, .other = 20, .op = signal, .why = FLOW_BY_THREAD);
	EV(ns + 1, 0, 10, FLOW_CALL, .call = SYS_tgkill);
}

static void takes_signal(struct flow_graph *g, uint64_t ns, uint32_t signal)
{
	EV(ns, 1, 20, FLOW_CALL, .call = SYS_rt_sigtimedwait, .result = signal);
}

static void test_a_timerfd_that_has_expired_is_by_whom_set_it_last(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	DONE_ON(5, 0, 10, SYS_timerfd_settime, TIMERFD, 7, 0);
	DONE_ON(9, 1, 20, SYS_read, TIMERFD, 7, 8);
	DONE_ON(15, 0, 10, SYS_timerfd_settime, TIMERFD, 7, 0);
	DONE_ON(19, 1, 20, SYS_read, TIMERFD, 7, 8);
	assert_int_equal(count_edges(g), 2);
	check(g, edge_into(g, 20, 19, 0), FLOW_EDGE_TIMER, 10, 15);
	check(g, edge_into(g, 20, 19, 1), FLOW_EDGE_TIMER, 10, 5);
	(void)state;
}

static void test_a_read_of_an_eventfd_takes_all_that_was_written(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	DONE_ON(5, 0, 10, SYS_write, EVENTFD, 7, 8);
	DONE_ON(6, 0, 10, SYS_write, EVENTFD, 7, 8);
	DONE_ON(9, 1, 20, SYS_read, EVENTFD, 7, 8);
	DONE_ON(12, 1, 20, SYS_read, EVENTFD, 7, -11);
	assert_int_equal(count_edges(g), 2);
	check(g, edge_into(g, 20, 9, 0), FLOW_EDGE_MESSAGE, 10, 6);
	check(g, edge_into(g, 20, 9, 1), FLOW_EDGE_MESSAGE, 10, 5);
	(void)state;
}

/* The write was in its call when the read returned: it may have been taken then, or not. */
static void test_a_write_that_a_read_may_have_taken_already_is_put_down_to_no_later_one(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	DONE_ON(5, 1, 20, SYS_read, EVENTFD, 7, 8);
	DONE_ON(6, 0, 10, SYS_write, EVENTFD, 7, 8);
	DONE_ON(9, 1, 20, SYS_read, EVENTFD, 7, 8);
	assert_int_equal(count_edges(g), 0);
	(void)state;
}

static void test_a_read_of_a_semaphore_takes_one_in_order(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	EV(2, 0, 10, FLOW_SOCKET, .kind = FLOW_KIND_SEMAPHORE, .object = 7, .why = 1);
	DONE_ON(5, 0, 10, SYS_write, SEMAPHORE, 7, 8);
	DONE_ON(6, 0, 10, SYS_write, SEMAPHORE, 7, 8);
	DONE_ON(9, 1, 20, SYS_read, SEMAPHORE, 7, 8);
	assert_int_equal(count_edges(g), 1);
	check(g, edge_into(g, 20, 9, 0), FLOW_EDGE_MESSAGE, 10, 5);
	DONE_ON(12, 1, 20, SYS_read, SEMAPHORE, 7, 8);
	check(g, edge_into(g, 20, 12, 0), FLOW_EDGE_MESSAGE, 10, 6);
	(void)state;
}

static void test_a_pending_signal_is_by_whom_sent_it(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	sends(g, 5, 10);
	takes_signal(g, 9, 10);
	check(g, edge_into(g, 20, 9, 0), FLOW_EDGE_WAKEUP, 10, 5);
	assert_int_equal(edge_into(g, 20, 9, 0)->signal, 10);
	sends(g, 12, 12);
	EV(15, 1, 20, FLOW_SIGNAL_TAKEN, .op = 12);
	check(g, edge_into(g, 20, 15, 0), FLOW_EDGE_WAKEUP, 10, 12);
	takes_signal(g, 18, 12);
	assert_int_equal(count_edges(g), 2);
	(void)state;
}

/* One that was queued before the recording would come out first. */
static void test_queued_signals_are_matched_only_where_all_that_are_pending_are_known(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	sends(g, 5, REAL_TIME);
	takes_signal(g, 9, REAL_TIME);
	assert_int_equal(count_edges(g), 0);
	SLEEP_IN(10, 1, 20, SYS_rt_sigtimedwait);
	RUN(11, 1, 20);
	sends(g, 12, REAL_TIME);
	sends(g, 14, REAL_TIME);
	takes_signal(g, 19, REAL_TIME);
	check(g, edge_into(g, 20, 19, 0), FLOW_EDGE_WAKEUP, 10, 12);
	takes_signal(g, 20, REAL_TIME);
	check(g, edge_into(g, 20, 20, 0), FLOW_EDGE_WAKEUP, 10, 14);
	(void)state;
}

static void test_bytes_in_a_new_pipe_are_known_from_the_first_one(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	EV(2, 0, 10, FLOW_SOCKET, .kind = FLOW_KIND_PIPE, .object = 7, .why = 1);
	DONE_ON(5, 0, 10, SYS_write, PIPE, 7, 5);
	DONE_ON(9, 1, 20, SYS_read, PIPE, 7, 5);
	assert_int_equal(count_edges(g), 1);
	check(g, edge_into(g, 20, 9, 0), FLOW_EDGE_MESSAGE, 10, 5);
	(void)state;
}

/* The client sends before the server's accept() has told its end. */
static void test_bytes_of_a_new_connection_are_known_from_the_first_one(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	EV(2, 0, 10, FLOW_SOCKET, .kind = FLOW_KIND_INET, .object = 100,
	   .word = { 4000 | 80 << 16, 0xaa, 0xbb });
	DONE_ON(3, 0, 10, SYS_connect, INET, 100, 0);
	DONE_ON(5, 0, 10, SYS_sendto, INET, 100, 9);
	EV(6, 1, 20, FLOW_SOCKET, .kind = FLOW_KIND_INET, .object = 200,
	   .word = { 80 | 4000 << 16, 0xbb, 0xaa });
	DONE_ON(9, 1, 20, SYS_recvfrom, INET, 200, 9);
	assert_int_equal(count_edges(g), 1);
	check(g, edge_into(g, 20, 9, 0), FLOW_EDGE_MESSAGE, 10, 5);
	DONE_ON(11, 1, 20, SYS_sendto, INET, 200, 4);
	DONE_ON(12, 0, 10, SYS_recvfrom, INET, 100, 4);
	check(g, edge_into(g, 10, 12, 0), FLOW_EDGE_MESSAGE, 20, 11);
	(void)state;
}

/* The server has read before its other end was told: of what, is not known. */
static void test_a_connection_that_was_read_from_before_it_was_told_has_no_messages(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	DONE_ON(2, 1, 20, SYS_recvfrom, INET, 200, 9);
	DONE_ON(3, 0, 10, SYS_connect, INET, 100, 0);
	DONE_ON(5, 0, 10, SYS_sendto, INET, 100, 9);
	EV(6, 0, 10, FLOW_SOCKET, .kind = FLOW_KIND_INET, .object = 100,
	   .word = { 4000 | 80 << 16, 0xaa, 0xbb });
	EV(7, 1, 20, FLOW_SOCKET, .kind = FLOW_KIND_INET, .object = 200,
	   .word = { 80 | 4000 << 16, 0xbb, 0xaa });
	DONE_ON(9, 1, 20, SYS_recvfrom, INET, 200, 9);
	assert_int_equal(count_edges(g), 0);
	(void)state;
}

/* The reader's CPU tells the wait after the writer's has told the waking, and even the write's return. */
static void test_a_waking_before_its_wait_is_told_begins_the_unit_behind_it(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	EV(2, 0, 10, FLOW_SOCKET, .kind = FLOW_KIND_PIPE, .object = 7, .why = 1);
	WAKE(10, 0, 10, 20, THREAD);
	DONE_ON(11, 0, 10, SYS_write, PIPE, 7, 5);
	SLEEP_ON(12, 1, 20, SYS_read, PIPE, 7);
	RUN(13, 1, 20);
	DONE_ON(14, 1, 20, SYS_read, PIPE, 7, 5);
	assert_int_equal(count_edges(g), 1);
	check(g, edge_into(g, 20, 14, 0), FLOW_EDGE_MESSAGE, 10, 10);
	assert_true(edge_into(g, 20, 14, 0)->flags & FLOW_EDGE_BEGINS);
	assert_null(edge_into(g, 20, 11, 0));
	(void)state;
}

/* It was kept from sleeping: its unit goes on. */
static void test_a_waking_of_a_thread_that_does_not_sleep_leads_into_its_unit(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	WAKE(10, 0, 10, 20, THREAD);
	DONE_ON(11, 0, 10, SYS_write, PIPE, 7, 5);
	DONE_ON(14, 1, 20, SYS_read, PIPE, 7, 5);
	SLEEP_ON(16, 1, 20, SYS_read, PIPE, 7);
	assert_int_equal(count_edges(g), 1);
	check(g, edge_into(g, 20, 14, 0), FLOW_EDGE_MESSAGE, 10, 10);
	(void)state;
}

/* A page fault waits for a lock of the kernel's: the write that returns next has nothing to do with it. */
static void test_a_waking_out_of_an_uninterruptible_sleep_is_not_put_down_to_a_call(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();
	const struct flow_edge *e;

	EV(5, 1, 20, FLOW_SWITCH, .why = FLOW_BLOCKED | FLOW_WHY_FAULT);
	WAKE(10, 0, 10, 20, THREAD);
	DONE_ON(11, 0, 10, SYS_write, PIPE, 7, 5);
	RUN(12, 1, 20);
	e = edge_into(g, 20, 12, 1);
	check(g, e, FLOW_EDGE_WAKEUP, 10, 10);
	assert_false(e->has_call);
	(void)state;
}

/* The same where the waking, and even the call, is told before the wait. */
static void test_neither_is_one_that_is_told_before_that_sleep(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();
	const struct flow_edge *e;

	WAKE(10, 0, 10, 20, THREAD);
	EV(11, 1, 20, FLOW_SWITCH, .why = FLOW_BLOCKED | FLOW_WHY_FAULT);
	DONE_ON(12, 0, 10, SYS_write, PIPE, 7, 5);
	RUN(13, 1, 20);
	e = edge_into(g, 20, 13, 1);
	check(g, e, FLOW_EDGE_WAKEUP, 10, 10);
	assert_false(e->has_call);
	EV(14, 1, 20, FLOW_CALL, .call = SYS_getpid);
	WAKE(20, 0, 10, 20, THREAD);
	DONE_ON(21, 0, 10, SYS_write, PIPE, 7, 5);
	EV(22, 1, 20, FLOW_SWITCH, .why = FLOW_BLOCKED | FLOW_WHY_FAULT);
	RUN(23, 1, 20);
	e = edge_into(g, 20, 23, 1);
	check(g, e, FLOW_EDGE_WAKEUP, 10, 20);
	assert_false(e->has_call);
	(void)state;
}

static void test_a_waking_is_not_put_down_to_a_call_that_wakes_nobody(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	SLEEP_IN(5, 1, 20, SYS_pause);
	WAKE(10, 0, 10, 20, THREAD);
	EV(11, 0, 10, FLOW_CALL, .call = SYS_nanosleep);
	RUN(12, 1, 20);
	check(g, edge_into(g, 20, 12, 0), FLOW_EDGE_WAKEUP, 10, 10);
	assert_false(edge_into(g, 20, 12, 0)->has_call);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_timerfd_that_has_expired_is_by_whom_set_it_last),
		cmocka_unit_test(test_a_read_of_an_eventfd_takes_all_that_was_written),
		cmocka_unit_test(test_a_write_that_a_read_may_have_taken_already_is_put_down_to_no_later_one),
		cmocka_unit_test(test_a_read_of_a_semaphore_takes_one_in_order),
		cmocka_unit_test(test_a_pending_signal_is_by_whom_sent_it),
		cmocka_unit_test(test_queued_signals_are_matched_only_where_all_that_are_pending_are_known),
		cmocka_unit_test(test_bytes_in_a_new_pipe_are_known_from_the_first_one),
		cmocka_unit_test(test_bytes_of_a_new_connection_are_known_from_the_first_one),
		cmocka_unit_test(test_a_connection_that_was_read_from_before_it_was_told_has_no_messages),
		cmocka_unit_test(test_a_waking_before_its_wait_is_told_begins_the_unit_behind_it),
		cmocka_unit_test(test_a_waking_of_a_thread_that_does_not_sleep_leads_into_its_unit),
		cmocka_unit_test(test_a_waking_out_of_an_uninterruptible_sleep_is_not_put_down_to_a_call),
		cmocka_unit_test(test_neither_is_one_that_is_told_before_that_sleep),
		cmocka_unit_test(test_a_waking_is_not_put_down_to_a_call_that_wakes_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
