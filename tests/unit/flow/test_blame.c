/* Why threads do not go on when the events end, and who is to blame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watchctl/flow/blame/seen.h"

static struct seen *fed; /* of the log that is made */
#define ALSO_FEED(G, E) assert_null(seen_feed(fed, G, E))

#include "tests/unit/flow/flow_events.h"

#include <linux/futex.h>
#include <signal.h>

#include "watchctl/flow/blame/baseline.h"
#include "watchctl/flow/blame/blame.h"
#include "watchctl/flow/blame/slow.h"

struct log {
	struct flow_graph *g;
	struct seen seen;
};

static struct flow_graph *begin(struct log *l)
{
	*l = (struct log){ .g = flow_graph_new() };
	assert_non_null(l->g);
	fed = &l->seen;
	return l->g;
}

static void end(struct log *l)
{
	flow_graph_end(l->g);
	assert_null(seen_end(&l->seen, l->g));
}

static void close_log(struct log *l)
{
	seen_deinit(&l->seen);
	flow_graph_free(l->g);
}

static uint32_t number_of(const struct log *l, int32_t tid)
{
	return (uint32_t)(uintptr_t)id_map_get(&flow_graph_threads(l->g)->last, (uint32_t)tid) - 1;
}

static int32_t tid_at(const struct log *l, uint32_t thread)
{
	return flow_graph_threads(l->g)->thread[thread].tid;
}

/* Of all threads. */
static void find(struct log *l, struct blame *b)
{
	struct flow_graph *g = l->g;

	RUN(1000, 7, 99);
	end(l);
	assert_null(blame_find(l->g, &l->seen, NULL, b));
}

static void find_of(struct log *l, int32_t tid, struct blame *b)
{
	bool chosen[16] = { false };

	end(l);
	chosen[number_of(l, tid)] = true;
	assert_null(blame_find(l->g, &l->seen, chosen, b));
}

static void check(const struct log *l, const struct blame *b, int32_t tid, enum verdict verdict)
{
	assert_true(b->n > 0);
	assert_int_equal(tid_at(l, b->culprit->who), tid);
	assert_int_equal(b->culprit->verdict, verdict);
}

/* In a mutex of process 10, which @owner has. */
static void lock_wait(struct flow_graph *g, uint64_t ns, uint32_t cpu, int32_t tid, uint64_t address,
		      uint32_t owner)
{
	EV(ns, cpu, tid, FLOW_WAIT_FUTEX, .why = FLOW_SLEEPS, .call = SYS_futex,
	   .op = FUTEX_WAIT | FUTEX_PRIVATE_FLAG, .address = address, .has_words = true,
	   .word = { 2, owner, 0 });
}

static void threads_of_one(struct flow_graph *g)
{
	name(g, 10, 10, "app");
	name(g, 11, 10, "app");
	name(g, 12, 10, "app");
	RUN(1, 0, 10);
	RUN(1, 1, 11);
	RUN(1, 2, 12);
}

static void test_a_mutex_that_a_sleeper_has(void **state)
{
	struct log l;
	struct blame b;
	struct flow_graph *g = begin(&l);

	threads_of_one(g);
	SLEEP_IN(10, 1, 11, SYS_clock_nanosleep);
	lock_wait(g, 20, 0, 10, 0x1000, 11);
	lock_wait(g, 30, 2, 12, 0x1000, 11);
	find(&l, &b);
	check(&l, &b, 11, VERDICT_SLEEPS);
	assert_int_equal(b.culprit->waiters, 2);
	assert_false(b.culprit->guessed);
	blame_deinit(&b);
	close_log(&l);
	(void)state;
}

static void test_a_wait_that_goes_on_is_an_open_edge(void **state)
{
	struct log l;
	struct flow_graph *g = begin(&l);
	const struct flow_edge *e;

	threads_of_one(g);
	lock_wait(g, 20, 0, 10, 0x1000, 11);
	SLEEP_ON(30, 2, 12, SYS_read, PIPE, 7); /* idle: no unit is there that it could be in */
	SLEEP_IN(90, 1, 11, SYS_clock_nanosleep);
	end(&l);
	assert_int_equal(count_edges(g), 2);
	e = edge_into(g, 10, 20, 0);
	assert_int_equal(e->kind, FLOW_EDGE_WAIT_FOR);
	assert_true(e->flags & FLOW_EDGE_OPEN);
	assert_int_equal(e->from_ns, 20);
	assert_int_equal(e->to_ns, 90);
	assert_int_equal(tid_of(g, e->from), 11);
	close_log(&l);
	(void)state;
}

/* 10 and 11 have a lock each and want the other; 12 wants one of them. */
static void test_a_circle_of_two_locks_over_three_threads(void **state)
{
	struct log l;
	struct blame b;
	struct flow_graph *g = begin(&l);

	threads_of_one(g);
	lock_wait(g, 10, 2, 12, 0x1000, 10);
	lock_wait(g, 20, 0, 10, 0x2000, 11);
	lock_wait(g, 30, 1, 11, 0x1000, 10);
	find(&l, &b);
	assert_int_equal(b.n, 1);
	assert_int_equal(b.culprit->verdict, VERDICT_DEADLOCK);
	assert_int_equal(b.culprit->npath - b.culprit->circle, 2);
	assert_int_equal(tid_at(&l, b.culprit->path[0]), 12);
	assert_int_equal(b.culprit->waiters, 2);
	blame_deinit(&b);
	close_log(&l);
	(void)state;
}

static void test_a_lock_whose_owner_has_ended(void **state)
{
	struct log l;
	struct blame b;
	struct flow_graph *g = begin(&l);

	threads_of_one(g);
	EV(5, 1, 11, FLOW_EXIT);
	EV(6, 1, 11, FLOW_SWITCH, .why = FLOW_DEAD);
	lock_wait(g, 20, 0, 10, 0x1000, 11);
	find_of(&l, 10, &b);
	check(&l, &b, 10, VERDICT_NOBODY);
	blame_deinit(&b);
	close_log(&l);
	(void)state;
}

static void test_a_pipe_whose_writer_died(void **state)
{
	struct log l;
	struct blame b;
	struct flow_graph *g = begin(&l);

	name(g, 10, 10, "reader");
	name(g, 20, 20, "writer");
	RUN(1, 0, 10);
	RUN(1, 1, 20);
	DONE_ON(5, 1, 20, SYS_write, PIPE, 7, 8);
	DONE_ON(6, 0, 10, SYS_read, PIPE, 7, 8);
	EV(10, 1, 20, FLOW_EXIT, .result = SIGKILL);
	EV(11, 1, 20, FLOW_SWITCH, .why = FLOW_DEAD);
	SLEEP_ON(20, 0, 10, SYS_read, PIPE, 7);
	find_of(&l, 10, &b);
	check(&l, &b, 20, VERDICT_GONE);
	assert_int_equal(l.seen.thread[b.culprit->who].status, SIGKILL);
	blame_deinit(&b);
	close_log(&l);
	(void)state;
}

/* A client asks a server, which asks another one, which spins. */
static void test_a_server_whose_upstream_spins(void **state)
{
	struct log l;
	struct blame b;
	struct flow_graph *g = begin(&l);

	name(g, 10, 10, "client");
	name(g, 20, 20, "server");
	name(g, 30, 30, "behind");
	RUN(1, 0, 10);
	RUN(1, 1, 20);
	RUN(1, 2, 30);
	EV(2, 0, 10, FLOW_SOCKET, .kind = FLOW_KIND_UNIX, .object = 100, .word = { 101 });
	EV(2, 1, 20, FLOW_SOCKET, .kind = FLOW_KIND_UNIX, .object = 200, .word = { 201 });
	DONE_ON(3, 1, 20, SYS_read, UNIX, 101, 1);
	DONE_ON(3, 2, 30, SYS_read, UNIX, 201, 1);
	DONE_ON(4, 0, 10, SYS_write, UNIX, 100, 1);
	SLEEP_ON(5, 0, 10, SYS_read, UNIX, 100);
	DONE_ON(6, 1, 20, SYS_read, UNIX, 101, 1);
	DONE_ON(7, 1, 20, SYS_write, UNIX, 200, 1);
	SLEEP_ON(8, 1, 20, SYS_epoll_wait, EPOLL, 1);
	DONE_ON(9, 2, 30, SYS_read, UNIX, 201, 1);
	RUN(5000000000, 3, 40);
	find_of(&l, 10, &b);
	check(&l, &b, 30, VERDICT_BUSY);
	assert_int_equal(b.culprit->npath, 3);
	assert_true(b.culprit->guessed);
	blame_deinit(&b);
	close_log(&l);
	(void)state;
}

static void test_a_disk_that_does_not_answer(void **state)
{
	struct log l;
	struct blame b;
	struct flow_graph *g = begin(&l);

	threads_of_one(g);
	EV(10, 1, 11, FLOW_WAIT_ON, .why = FLOW_BLOCKED, .call = SYS_fsync, .kind = FLOW_KIND_FILE,
	   .object = 7);
	lock_wait(g, 20, 0, 10, 0x1000, 11);
	find(&l, &b);
	check(&l, &b, 11, VERDICT_KERNEL);
	blame_deinit(&b);
	close_log(&l);
	(void)state;
}

static void test_idle_threads_are_no_suspects(void **state)
{
	struct log l;
	struct blame b;
	struct flow_graph *g = begin(&l);

	threads_of_one(g);
	SLEEP_ON(10, 0, 10, SYS_epoll_wait, EPOLL, 7);
	SLEEP_ON(10, 1, 11, SYS_read, PIPE, 8);
	SLEEP_IN(10, 2, 12, SYS_clock_nanosleep);
	find(&l, &b);
	assert_int_equal(b.n, 0);
	blame_deinit(&b);
	close_log(&l);
	(void)state;
}

/* A worker that waits in a condition variable: 11 gave it work until now. */
static void work(struct flow_graph *g, uint64_t ns, bool last)
{
	EV(ns, 0, 10, FLOW_WAIT_FUTEX, .why = FLOW_SLEEPS, .call = SYS_futex,
	   .op = FUTEX_WAIT | FUTEX_PRIVATE_FLAG, .address = 0x3000);
	if (last)
		return;
	DONE_ON(ns + 1, 1, 11, SYS_read, PIPE, 7, 1);
	WAKE(ns + 2, 1, 11, 10, THREAD);
	EV(ns + 3, 1, 11, FLOW_CALL_FUTEX, .call = SYS_futex, .op = FUTEX_WAKE, .address = 0x3000,
	   .result = 1);
	RUN(ns + 4, 0, 10);
	SLEEP_ON(ns + 5, 1, 11, SYS_read, PIPE, 7);
	WAKE(ns + 6, 2, 12, 11, THREAD);
	DONE_ON(ns + 7, 2, 12, SYS_write, PIPE, 7, 1);
	RUN(ns + 8, 1, 11);
}

static void pool(struct flow_graph *g)
{
	name(g, 10, 10, "app");
	name(g, 11, 10, "dispatch");
	name(g, 12, 12, "client");
	RUN(1, 0, 10);
	RUN(1, 1, 11);
	RUN(1, 2, 12);
}

static void test_who_ended_such_waits_until_now(void **state)
{
	struct log l;
	struct blame b;
	struct flow_graph *g = begin(&l);

	pool(g);
	for (uint64_t i = 0; i < 3; i++)
		work(g, 10 + 10 * i, false);
	work(g, 40, true);
	SLEEP_IN(60, 1, 11, SYS_clock_nanosleep);
	find_of(&l, 10, &b);
	check(&l, &b, 11, VERDICT_SLEEPS);
	assert_true(b.culprit->guessed);
	assert_int_equal(b.link[number_of(&l, 10)].how, BLAME_UNTIL_NOW);
	assert_int_equal(b.link[number_of(&l, 10)].times, 3);
	blame_deinit(&b);
	close_log(&l);
	(void)state;
}

/* In the bad log the worker never got a job: the client still asks, the dispatcher waits for a lock. */
static void test_a_baseline_shows_where_the_chain_is_cut(void **state)
{
	struct log good, bad;
	struct blame_log a, b;
	struct baseline r;
	struct flow_graph *g = begin(&good);

	pool(g);
	for (uint64_t i = 0; i < 3; i++)
		work(g, 10 + 10 * i, false);
	end(&good);
	g = begin(&bad);
	pool(g);
	work(g, 10, true);
	SLEEP_ON(15, 1, 11, SYS_read, PIPE, 7);
	WAKE(16, 2, 12, 11, THREAD);
	DONE_ON(17, 2, 12, SYS_write, PIPE, 7, 1);
	RUN(18, 1, 11);
	DONE_ON(19, 1, 11, SYS_read, PIPE, 7, 1);
	lock_wait(g, 20, 1, 11, 0x1000, 10);
	end(&bad);
	a = blame_log_of(good.g, &good.seen);
	b = blame_log_of(bad.g, &bad.seen);
	assert_null(baseline_find(&a, &b, number_of(&bad, 10), &r));
	assert_int_equal(r.waits, 3);
	assert_int_equal(r.ended, 3);
	assert_int_equal(tid_at(&good, r.ender), 11);
	assert_int_equal(r.nlinks, 2);
	assert_int_equal(r.cut, 1);
	assert_int_equal(tid_at(&bad, r.culprit), 11);
	close_log(&good);
	close_log(&bad);
	(void)state;
}

static void test_the_longest_wait_of_a_slow_answer(void **state)
{
	struct log l;
	struct blame_log b;
	struct blame_slow s;
	struct flow_graph *g = begin(&l);

	name(g, 10, 10, "client");
	name(g, 20, 20, "server");
	name(g, 21, 20, "server");
	RUN(1, 0, 10);
	RUN(1, 1, 20);
	RUN(1, 2, 21);
	SLEEP_ON(5, 1, 20, SYS_read, PIPE, 1);
	WAKE(10, 0, 10, 20, THREAD);
	DONE_ON(11, 0, 10, SYS_write, PIPE, 1, 1);
	SLEEP_ON(12, 0, 10, SYS_read, PIPE, 2);
	RUN(13, 1, 20);
	DONE_ON(14, 1, 20, SYS_read, PIPE, 1, 1);
	lock_wait(g, 20, 1, 20, 0x1000, 21);
	WAKE(90, 2, 21, 20, THREAD);
	RUN(91, 1, 20);
	WAKE(95, 1, 20, 10, THREAD);
	DONE_ON(96, 1, 20, SYS_write, PIPE, 2, 1);
	RUN(97, 0, 10);
	DONE_ON(98, 0, 10, SYS_read, PIPE, 2, 1);
	end(&l);
	b = blame_log_of(l.g, &l.seen);
	assert_null(blame_slow_find(&b, number_of(&l, 10), &s));
	assert_int_equal(tid_at(&l, s.who), 21);
	assert_int_equal(tid_at(&l, s.waiter), 20);
	assert_int_equal(s.wait_ns, 70);
	blame_slow_deinit(&s);
	close_log(&l);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_mutex_that_a_sleeper_has),
		cmocka_unit_test(test_a_wait_that_goes_on_is_an_open_edge),
		cmocka_unit_test(test_a_circle_of_two_locks_over_three_threads),
		cmocka_unit_test(test_a_lock_whose_owner_has_ended),
		cmocka_unit_test(test_a_pipe_whose_writer_died),
		cmocka_unit_test(test_a_server_whose_upstream_spins),
		cmocka_unit_test(test_a_disk_that_does_not_answer),
		cmocka_unit_test(test_idle_threads_are_no_suspects),
		cmocka_unit_test(test_who_ended_such_waits_until_now),
		cmocka_unit_test(test_a_baseline_shows_where_the_chain_is_cut),
		cmocka_unit_test(test_the_longest_wait_of_a_slow_answer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
