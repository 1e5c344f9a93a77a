/* Paths backwards through the graph: over what began each unit, up to an input. */
#include "tests/unit/flow/flow_events.h"

#include <errno.h>
#include <linux/futex.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/flow/graph/flow_path.h"

static struct flow_graph *three(void)
{
	struct flow_graph *g = flow_graph_new();

	assert_non_null(g);
	name(g, 10, 10, "client");
	name(g, 20, 20, "proxy");
	name(g, 30, 30, "server");
	RUN(1, 0, 10);
	RUN(1, 1, 20);
	RUN(1, 2, 30);
	return g;
}

static void find(struct flow_graph *g, int32_t tid, uint64_t ns, struct flow_path *p)
{
	const uint32_t thread = flow_threads_at(flow_graph_threads(g), tid, ns);

	assert_null(flow_path_find(g, flow_path_node(g, thread, ns), ns, 10, p));
}

/* 10 asks 20, which asks 30, which waits for a lock that 31 has, and answers. */
static void requests(struct flow_graph *g)
{
	name(g, 31, 30, "server");
	RUN(2, 3, 31);
	SLEEP_ON(5, 1, 20, SYS_read, PIPE, 1);
	SLEEP_ON(5, 2, 30, SYS_read, PIPE, 2);
	WAKE(10, 0, 10, 20, THREAD);
	DONE_ON(11, 0, 10, SYS_write, PIPE, 1, 1);
	RUN(12, 1, 20);
	DONE_ON(13, 1, 20, SYS_read, PIPE, 1, 1);
	WAKE(20, 1, 20, 30, THREAD);
	DONE_ON(21, 1, 20, SYS_write, PIPE, 2, 1);
	SLEEP_ON(22, 1, 20, SYS_read, PIPE, 3);
	RUN(23, 2, 30);
	DONE_ON(24, 2, 30, SYS_read, PIPE, 2, 1);
	EV(30, 2, 30, FLOW_WAIT_FUTEX, .why = FLOW_SLEEPS, .call = SYS_futex,
	   .op = FUTEX_WAIT | FUTEX_PRIVATE_FLAG, .address = 0x1000, .has_words = true, .word = { 2, 31, 0 });
	WAKE(90, 3, 31, 30, THREAD);
	EV(91, 3, 31, FLOW_CALL_FUTEX, .call = SYS_futex, .op = FUTEX_WAKE, .address = 0x1000, .result = 1);
	RUN(92, 2, 30);
	WAKE(95, 2, 30, 20, THREAD);
	DONE_ON(96, 2, 30, SYS_write, PIPE, 3, 1);
	flow_graph_end(g);
}

static void test_a_path_goes_over_messages_and_lists_locks_in_between(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = three();
	struct flow_path p = { 0 };
	const struct flow_edge *edge;
	size_t n;

	requests(g);
	find(g, 20, 96, &p);
	assert_int_equal(p.n, 4);
	assert_int_equal(tid_of(g, p.step[0].node), 20);
	assert_int_equal(tid_of(g, p.step[1].node), 30);
	assert_int_equal(tid_of(g, p.step[2].node), 20);
	assert_int_equal(tid_of(g, p.step[3].node), 10);
	assert_int_equal(p.end, FLOW_PATH_INPUT);
	assert_int_equal(p.step[1].nwaits, 1);
	edge = &flow_graph_edges(g, &n)[p.wait[p.step[1].wait]];
	assert_int_equal(tid_of(g, edge->from), 31);
	assert_int_equal(edge->to_ns - edge->from_ns, 60);
	flow_path_deinit(&p);
	(void)state;
}

/* Before the answer, what began the unit is all there is. */
static void test_what_came_later_is_no_cause(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = three();
	struct flow_path p = { 0 };

	requests(g);
	find(g, 20, 15, &p);
	assert_int_equal(p.n, 2);
	assert_int_equal(tid_of(g, p.step[1].node), 10);
	assert_int_equal(p.step[0].until_ns, 15);
	flow_path_deinit(&p);
	(void)state;
}

/* As GLib's loop does: its thread writes to an eventfd of its own to come round again, and takes that with the next unit. */
static void test_what_a_thread_has_sent_itself_is_no_cause_of_a_unit_that_another_began(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = three();
	struct flow_path p = { 0 };

	EV(2, 1, 20, FLOW_SOCKET, .kind = FLOW_KIND_EVENTFD, .object = 4, .why = 1);
	DONE_ON(3, 1, 20, SYS_write, EVENTFD, 4, 8);
	SLEEP_IN(5, 1, 20, SYS_poll);
	WAKE(10, 0, 10, 20, THREAD);
	DONE_ON(11, 0, 10, SYS_write, EVENTFD, 4, 8);
	RUN(12, 1, 20);
	DONE_ON(13, 1, 20, SYS_read, EVENTFD, 4, 8);
	flow_graph_end(g);
	find(g, 20, 13, &p);
	assert_int_equal(p.n, 2);
	assert_int_equal(tid_of(g, p.step[1].node), 10);
	flow_path_deinit(&p);
	(void)state;
}

static void test_its_own_timeout_ends_a_path(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = three();
	struct flow_path p = { 0 };

	EV(3, 1, 20, FLOW_TIMER_SET, .object = 55);
	SLEEP_IN(5, 1, 20, SYS_epoll_wait);
	EV(50, 0, 10, FLOW_TIMER_FIRED, .object = 55);
	WAKE(50, 0, 10, 20, IRQ);
	flow_graph_end(g);
	find(g, 20, 50, &p);
	assert_int_equal(p.n, 1);
	assert_int_equal(p.end, FLOW_PATH_TIMER);
	flow_path_deinit(&p);
	(void)state;
}

/* Two units that read what the other wrote. */
/* A loop that came round at once, for it can write by now: what it writes it was asked for before. */
static void test_a_unit_without_a_cause_goes_back_to_the_one_before_it_if_there_was_no_wait(void **state)
{
	static const char *const text[] = { "libevent" };
	struct flow_rules *rules;
	scoped(flow_graph_freep) struct flow_graph *g = NULL;
	struct flow_path p = { 0 };

	assert_null(flow_rules_new(text, 1, &rules));
	g = flow_graph_new_by(rules);
	assert_non_null(g);
	name(g, 10, 10, "client");
	name(g, 20, 20, "server");
	RUN(1, 0, 10);
	RUN(1, 1, 20);
	SLEEP_IN(5, 1, 20, SYS_epoll_wait);
	WAKE(10, 0, 10, 20, THREAD);
	DONE_ON(11, 0, 10, SYS_write, UNIX, 4, 8);
	RUN(12, 1, 20);
	EV(13, 1, 20, FLOW_CALL, .call = SYS_epoll_wait, .result = 1);
	EV(20, 1, 20, FLOW_CALL, .call = SYS_epoll_wait, .result = 1);
	flow_graph_end(g);
	find(g, 20, 20, &p);
	assert_int_equal(p.n, 3);
	assert_true(p.step[0].follows);
	assert_int_equal(tid_of(g, p.step[1].node), 20);
	assert_false(p.step[1].follows);
	assert_int_equal(tid_of(g, p.step[2].node), 10);
	flow_path_deinit(&p);
	(void)state;
}

static void test_a_circle_ends_a_path(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = three();
	struct flow_path p = { 0 };

	DONE_ON(5, 1, 20, SYS_read, PIPE, 1, -EAGAIN);
	DONE_ON(5, 0, 10, SYS_read, PIPE, 2, -EAGAIN);
	for (uint64_t ns = 10; ns < 100; ns += 10) {
		DONE_ON(ns, 0, 10, SYS_write, PIPE, 1, 1);
		DONE_ON(ns + 1, 1, 20, SYS_read, PIPE, 1, 1);
		DONE_ON(ns + 2, 1, 20, SYS_write, PIPE, 2, 1);
		DONE_ON(ns + 3, 0, 10, SYS_read, PIPE, 2, 1);
	}
	flow_graph_end(g);
	find(g, 10, 100, &p);
	assert_int_equal(p.n, 2);
	assert_int_equal(p.end, FLOW_PATH_CIRCLE);
	flow_path_deinit(&p);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_path_goes_over_messages_and_lists_locks_in_between),
		cmocka_unit_test(test_what_came_later_is_no_cause),
		cmocka_unit_test(test_what_a_thread_has_sent_itself_is_no_cause_of_a_unit_that_another_began),
		cmocka_unit_test(test_its_own_timeout_ends_a_path),
		cmocka_unit_test(
			test_a_unit_without_a_cause_goes_back_to_the_one_before_it_if_there_was_no_wait),
		cmocka_unit_test(test_a_circle_ends_a_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
