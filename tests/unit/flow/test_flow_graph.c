/* The graph of causes, from events made by hand: the edges that must be there, and the ones that must not. */
#include "tests/unit/flow/flow_events.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>

#include "watchctl/base/cleanup.h"

static void check(struct flow_graph *g, const struct flow_edge *e, enum flow_edge_kind kind, int32_t from,
		  uint64_t from_ns, uint64_t to_ns)
{
	assert_non_null(e);
	assert_int_equal(e->kind, kind);
	assert_int_equal(tid_of(g, e->from), from);
	assert_int_equal(e->from_ns, from_ns);
	assert_int_equal(e->to_ns, to_ns);
}

static void test_a_write_that_wakes_the_reader_is_a_message_with_its_call(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();
	const struct flow_edge *e;

	SLEEP_ON(5, 1, 20, SYS_read, PIPE, 77);
	WAKE(10, 0, 10, 20, THREAD);
	RUN(12, 1, 20);
	DONE_ON(13, 1, 20, SYS_read, PIPE, 77, 8); /* before the write has returned */
	DONE_ON(14, 0, 10, SYS_write, PIPE, 77, 8);
	flow_graph_end(g);
	assert_int_equal(count_edges(g), 1);
	e = edge_into(g, 20, 13, 0);
	check(g, e, FLOW_EDGE_MESSAGE, 10, 10, 10);
	assert_true(e->flags & FLOW_EDGE_BEGINS);
	assert_true(e->has_call);
	assert_int_equal(e->call, SYS_write);
	assert_int_equal(e->object_kind, FLOW_KIND_PIPE);
	assert_int_equal(e->object, 77);
	assert_int_equal(e->bytes, 8);
	(void)state;
}

/* The second message is there already when the reader comes: nobody wakes it. */
static void test_bytes_in_order_make_messages_where_no_reader_slept(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();
	const struct flow_edge *e;

	DONE_ON(5, 1, 20, SYS_read, PIPE, 77, -EAGAIN);
	DONE_ON(6, 0, 10, SYS_write, PIPE, 77, 5);
	DONE_ON(7, 0, 10, SYS_write, PIPE, 77, 3);
	DONE_ON(8, 1, 20, SYS_read, PIPE, 77, 6);
	DONE_ON(9, 1, 20, SYS_read, PIPE, 77, 2);
	flow_graph_end(g);
	assert_int_equal(count_edges(g), 3);
	check(g, edge_into(g, 20, 9, 0), FLOW_EDGE_MESSAGE, 10, 7, 9);
	e = edge_into(g, 20, 9, 1);
	check(g, e, FLOW_EDGE_MESSAGE, 10, 7, 8);
	assert_int_equal(e->bytes, 1);
	check(g, edge_into(g, 20, 9, 2), FLOW_EDGE_MESSAGE, 10, 6, 8);
	(void)state;
}

static void test_a_stream_whose_beginning_is_missing_has_no_messages_until_it_is_empty(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	DONE_ON(5, 0, 10, SYS_write, PIPE, 77, 5);
	DONE_ON(6, 1, 20, SYS_read, PIPE, 77, 5);
	assert_int_equal(count_edges(g), 0);
	DONE_ON(7, 1, 20, SYS_read, PIPE, 77, -EAGAIN);
	DONE_ON(8, 0, 10, SYS_write, PIPE, 77, 5);
	DONE_ON(9, 1, 20, SYS_read, PIPE, 77, 5);
	assert_int_equal(count_edges(g), 1);
	check(g, edge_into(g, 20, 9, 0), FLOW_EDGE_MESSAGE, 10, 8, 9);
	(void)state;
}

static void socket_pair(struct flow_graph *g)
{
	EV(2, 0, 10, FLOW_SOCKET, .kind = FLOW_KIND_INET, .object = 100,
	   .word = { 4000 | 80 << 16, 0xaa, 0xbb });
	EV(2, 1, 20, FLOW_SOCKET, .kind = FLOW_KIND_INET, .object = 200,
	   .word = { 80 | 4000 << 16, 0xbb, 0xaa });
}

/* The softirq hits thread 30; the message is from 10. */
static void test_an_interrupt_that_hits_an_innocent_thread_is_not_by_it(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	socket_pair(g);
	RUN(3, 2, 30);
	SLEEP_ON(5, 1, 20, SYS_recvfrom, INET, 200);
	WAKE(10, 2, 30, 20, SOFTIRQ);
	DONE_ON(11, 0, 10, SYS_sendto, INET, 100, 9);
	RUN(12, 1, 20);
	DONE_ON(13, 1, 20, SYS_recvfrom, INET, 200, 9);
	DONE_ON(14, 2, 30, SYS_write, FILE, 5, 100);
	flow_graph_end(g);
	assert_int_equal(count_edges(g), 1);
	check(g, edge_into(g, 20, 13, 0), FLOW_EDGE_MESSAGE, 10, 11, 13);
	(void)state;
}

/* Positions are not known, as 20 waits in epoll; but it wakes in 10's own send, and reads from its other end. */
static void test_the_softirq_of_a_send_is_a_message_where_the_woken_reads_the_other_end(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	socket_pair(g);
	SLEEP_IN(5, 1, 20, SYS_epoll_wait);
	WAKE(10, 0, 10, 20, SOFTIRQ);
	DONE_ON(11, 0, 10, SYS_sendto, INET, 100, 9);
	RUN(12, 1, 20);
	DONE_ON(13, 1, 20, SYS_recvfrom, INET, 200, 9);
	SLEEP_IN(15, 1, 20, SYS_epoll_wait);
	WAKE(20, 0, 10, 20, SOFTIRQ);
	DONE_ON(21, 0, 10, SYS_sendto, INET, 100, 9);
	RUN(22, 1, 20);
	DONE_ON(23, 1, 20, SYS_recvfrom, INET, 999, 9); /* of another one */
	flow_graph_end(g);
	assert_int_equal(count_edges(g), 1);
	check(g, edge_into(g, 20, 13, 0), FLOW_EDGE_MESSAGE, 10, 10, 10);
	(void)state;
}

static void futex_wait(struct flow_graph *g, uint64_t ns, uint32_t owner, uint32_t op, uint32_t kind)
{
	EV(ns, 1, 20, FLOW_WAIT_FUTEX, .why = FLOW_SLEEPS, .call = SYS_futex, .op = op, .address = 0x1000,
	   .has_words = true, .word = { 2, owner, kind });
}

static void test_a_mutex_is_a_wait_for_its_owner_inside_the_unit(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();
	const struct flow_edge *e;

	name(g, 21, 20, "server");
	RUN(2, 0, 21);
	futex_wait(g, 5, 21, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0);
	WAKE(10, 0, 21, 20, THREAD);
	EV(11, 0, 21, FLOW_CALL_FUTEX, .call = SYS_futex, .op = FUTEX_WAKE | FUTEX_PRIVATE_FLAG, .result = 1,
	   .address = 0x1000);
	flow_graph_end(g);
	e = edge_into(g, 20, 5, 0);
	check(g, e, FLOW_EDGE_WAIT_FOR, 21, 5, 10);
	assert_true(e->flags & FLOW_EDGE_OWNER);
	e = edge_into(g, 20, 5, 1);
	check(g, e, FLOW_EDGE_LOCK, 21, 10, 10);
	assert_int_equal(e->address, 0x1000);
	assert_false(e->flags & FLOW_EDGE_BEGINS);
	assert_int_equal(count_edges(g), 2);
	(void)state;
}

/* The next word is the number of a thread of another process: no lock of ours looks so. */
static void test_a_futex_whose_next_word_looks_like_a_thread_has_no_owner(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	futex_wait(g, 5, 10, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0);
	WAKE(10, 0, 10, 20, THREAD);
	EV(11, 0, 10, FLOW_CALL_FUTEX, .call = SYS_futex, .op = FUTEX_WAKE, .result = 1, .address = 0x1000);
	flow_graph_end(g);
	assert_int_equal(count_edges(g), 1);
	check(g, edge_into(g, 20, 11, 0), FLOW_EDGE_LOCK, 10, 10, 10);
	assert_true(edge_into(g, 20, 11, 0)->flags & FLOW_EDGE_BEGINS);
	(void)state;
}

static void test_a_word_too_large_for_a_mutex_kind_is_no_mutex(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	name(g, 21, 20, "server");
	futex_wait(g, 5, 21, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 5000);
	WAKE(10, 0, 10, 20, IRQ);
	flow_graph_end(g);
	assert_int_equal(count_edges(g), 0);
	(void)state;
}

static void test_a_timer_leads_from_whom_set_it(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	EV(3, 1, 20, FLOW_TIMER_SET, .object = 55);
	SLEEP_IN(5, 1, 20, SYS_epoll_wait);
	EV(50, 0, 10, FLOW_TIMER_FIRED, .object = 55);
	WAKE(50, 0, 10, 20, IRQ);
	WAKE(51, 0, 10, 30, IRQ); /* not by the timer */
	flow_graph_end(g);
	assert_int_equal(count_edges(g), 1);
	check(g, edge_into(g, 20, 50, 0), FLOW_EDGE_TIMER, 20, 3, 50);
	assert_true(edge_into(g, 20, 50, 0)->flags & FLOW_EDGE_OWN);
	(void)state;
}

static void test_a_child_is_spawned_and_its_exit_wakes_its_parent(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();
	const struct flow_edge *e;

	EV(5, 0, 10, FLOW_FORK, .other = 30);
	SLEEP_IN(6, 0, 10, SYS_wait4);
	RUN(7, 1, 30);
	EV(8, 1, 30, FLOW_EXIT, .result = 0);
	EV(9, 1, 30, FLOW_SIGNAL, .other = 10, .op = 17);
	WAKE(9, 1, 30, 10, THREAD);
	EV(10, 1, 30, FLOW_SWITCH, .why = FLOW_DEAD);
	flow_graph_end(g);
	check(g, edge_into(g, 30, 7, 0), FLOW_EDGE_SPAWN, 10, 5, 5);
	e = edge_into(g, 10, 9, 0);
	check(g, e, FLOW_EDGE_WAIT_FOR, 30, 6, 9);
	check(g, edge_into(g, 10, 9, 1), FLOW_EDGE_EXIT, 30, 9, 9);
	(void)state;
}

static void test_a_signal_is_told_with_its_number(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	SLEEP_IN(5, 1, 20, SYS_pause);
	EV(6, 0, 10, FLOW_SIGNAL, .other = 20, .op = 10);
	WAKE(6, 0, 10, 20, THREAD);
	EV(7, 0, 10, FLOW_CALL, .call = SYS_kill);
	flow_graph_end(g);
	check(g, edge_into(g, 20, 7, 0), FLOW_EDGE_WAKEUP, 10, 6, 6);
	assert_int_equal(edge_into(g, 20, 7, 0)->signal, 10);
	assert_int_equal(edge_into(g, 20, 7, 0)->call, SYS_kill);
	(void)state;
}

static void test_work_leads_from_whom_queued_it_to_the_worker_and_on(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	EV(4, 2, 50, FLOW_SWITCH, .why = FLOW_IDLE);
	SLEEP_IN(5, 1, 20, SYS_epoll_wait);
	EV(6, 0, 10, FLOW_WORK_QUEUED, .object = 9);
	WAKE(6, 0, 10, 50, THREAD);
	RUN(7, 2, 50);
	EV(8, 2, 50, FLOW_WORK_BEGAN, .object = 9);
	WAKE(9, 2, 50, 20, THREAD);
	EV(10, 2, 50, FLOW_WORK_ENDED, .object = 9);
	flow_graph_end(g);
	check(g, edge_into(g, 50, 8, 0), FLOW_EDGE_WORK, 10, 6, 8);
	check(g, edge_into(g, 20, 9, 0), FLOW_EDGE_WAKEUP, 50, 9, 9);
	(void)state;
}

/* As of a kernel that does not tell that some threads leave their CPU. */
static void test_a_switch_that_was_not_told_puts_nothing_down_to_the_thread_before(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	SLEEP_IN(4, 1, 20, SYS_epoll_wait);
	RUN(5, 2, 50);
	EV(6, 2, 50, FLOW_SWITCH, .why = FLOW_UNTOLD, .other = 10);
	WAKE(6, 2, 10, 20, THREAD);
	EV(7, 2, 10, FLOW_CALL, .call = SYS_tgkill);
	SLEEP_IN(8, 2, 10, SYS_poll);
	WAKE(9, 1, 20, 50, THREAD);
	flow_graph_end(g);
	check(g, edge_into(g, 20, 6, 0), FLOW_EDGE_WAKEUP, 10, 6, 6);
	check(g, edge_into(g, 50, 9, 0), FLOW_EDGE_WAKEUP, 20, 9, 9);
	(void)state;
}

static void test_work_of_an_interrupt_is_not_by_the_thread_that_it_hit(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	EV(4, 2, 50, FLOW_SWITCH, .why = FLOW_IDLE);
	EV(6, 0, 10, FLOW_WORK_QUEUED, .object = 9);
	WAKE(6, 0, 10, 50, SOFTIRQ);
	RUN(7, 2, 50);
	EV(8, 2, 50, FLOW_WORK_BEGAN, .object = 9);
	flow_graph_end(g);
	assert_int_equal(count_edges(g), 0);
	(void)state;
}

static void test_block_io_comes_back_to_whom_issued_it(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	EV(3, 1, 20, FLOW_BLOCK_ISSUED, .object = 70);
	EV(4, 1, 20, FLOW_WAIT_ON, .why = FLOW_BLOCKED, .call = SYS_read, .kind = FLOW_KIND_FILE,
	   .object = 8);
	EV(9, 0, 10, FLOW_BLOCK_DONE, .object = 70);
	WAKE(9, 0, 10, 20, SOFTIRQ);
	flow_graph_end(g);
	check(g, edge_into(g, 20, 9, 0), FLOW_EDGE_WAIT_FOR, 20, 4, 9);
	check(g, edge_into(g, 20, 9, 1), FLOW_EDGE_IO, 20, 3, 9);
	assert_int_equal(count_edges(g), 2);
	(void)state;
}

static void test_no_edge_leads_across_lost_events(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();
	size_t n;

	EV(3, 0, 10, FLOW_TIMER_SET, .object = 55);
	DONE_ON(4, 1, 20, SYS_read, PIPE, 77, -EAGAIN);
	DONE_ON(5, 0, 10, SYS_write, PIPE, 77, 5);
	SLEEP_IN(6, 1, 20, SYS_epoll_wait);
	EV(7, 2, -1, FLOW_LOST, .result = 3);
	EV(8, 0, 10, FLOW_TIMER_FIRED, .object = 55);
	WAKE(8, 0, 10, 20, IRQ);
	RUN(9, 1, 20);
	DONE_ON(10, 1, 20, SYS_read, PIPE, 77, 5);
	flow_graph_end(g);
	assert_int_equal(count_edges(g), 0);
	assert_int_equal(flow_graph_nodes(g, &n)[n - 1].before, FLOW_NONE);
	(void)state;
}

static void test_units_of_a_thread_follow_weakly(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();
	const struct flow_node *node;
	size_t n;

	SLEEP_IN(6, 1, 20, SYS_epoll_wait);
	WAKE(8, 0, 10, 20, THREAD);
	flow_graph_end(g);
	node = flow_graph_nodes(g, &n);
	assert_int_equal(n, 3);
	assert_int_equal(node[2].before, 1);
	assert_int_equal(node[1].end_ns, 6);
	assert_int_equal(node[2].begin_ns, 8);
	assert_int_equal(node[2].call, SYS_epoll_wait);
	(void)state;
}

static void test_a_number_used_again_is_another_thread(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();
	const struct flow_node *node;
	size_t n;

	EV(3, 1, 20, FLOW_EXIT, .result = 0);
	EV(4, 1, 20, FLOW_SWITCH, .why = FLOW_DEAD);
	EV(5, 0, 10, FLOW_FORK, .other = 20);
	RUN(6, 1, 20);
	flow_graph_end(g);
	node = flow_graph_nodes(g, &n);
	assert_int_equal(n, 3);
	assert_int_not_equal(node[1].thread, node[2].thread);
	assert_int_equal(node[2].before, FLOW_NONE);
	assert_int_equal(node[1].end_ns, 4);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_write_that_wakes_the_reader_is_a_message_with_its_call),
		cmocka_unit_test(test_bytes_in_order_make_messages_where_no_reader_slept),
		cmocka_unit_test(test_a_stream_whose_beginning_is_missing_has_no_messages_until_it_is_empty),
		cmocka_unit_test(test_an_interrupt_that_hits_an_innocent_thread_is_not_by_it),
		cmocka_unit_test(test_the_softirq_of_a_send_is_a_message_where_the_woken_reads_the_other_end),
		cmocka_unit_test(test_a_mutex_is_a_wait_for_its_owner_inside_the_unit),
		cmocka_unit_test(test_a_futex_whose_next_word_looks_like_a_thread_has_no_owner),
		cmocka_unit_test(test_a_word_too_large_for_a_mutex_kind_is_no_mutex),
		cmocka_unit_test(test_a_timer_leads_from_whom_set_it),
		cmocka_unit_test(test_a_child_is_spawned_and_its_exit_wakes_its_parent),
		cmocka_unit_test(test_a_signal_is_told_with_its_number),
		cmocka_unit_test(test_work_leads_from_whom_queued_it_to_the_worker_and_on),
		cmocka_unit_test(test_a_switch_that_was_not_told_puts_nothing_down_to_the_thread_before),
		cmocka_unit_test(test_work_of_an_interrupt_is_not_by_the_thread_that_it_hit),
		cmocka_unit_test(test_block_io_comes_back_to_whom_issued_it),
		cmocka_unit_test(test_no_edge_leads_across_lost_events),
		cmocka_unit_test(test_units_of_a_thread_follow_weakly),
		cmocka_unit_test(test_a_number_used_again_is_another_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
