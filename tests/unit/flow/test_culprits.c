/* The graph of an explanation, made by hand: who is found to blame, and how surely. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "watchctl/flow/explain/culprits.h"

#define MOST 8

/* Threads 0 to nown - 1 are of process 100, the others each of one of its own. */
struct scene {
	struct explanation e;
	struct explained x[MOST];
	struct look_process process[MOST];
	struct look_thread thread[MOST];
	struct waited whom[MOST][MOST];
	struct explained_edge edge[MOST][MOST];
};

static void scene_init(struct scene *s, size_t nown, size_t n)
{
	memset(s, 0, sizeof(*s));
	s->e = (struct explanation){ .pid = 100, .thread = s->x, .nthreads = n, .nown = nown };
	for (size_t i = 0; i < n; i++) {
		s->process[i].pid = i < nown ? 100 : 200 + (pid_t)i;
		s->thread[i].pid = s->process[i].pid;
		s->thread[i].tid = i < nown ? 100 + (pid_t)i : s->process[i].pid;
		s->thread[i].state = 'S';
		s->x[i].process = &s->process[i < nown ? 0 : i];
		s->x[i].thread = &s->thread[i];
		s->x[i].wait.whom = s->whom[i];
		s->x[i].edge = s->edge[i];
	}
}

static void scene_deinit(struct scene *s)
{
	for (size_t i = 0; i < s->e.nculprits; i++) {
		free(s->e.culprit[i].path);
		free(s->e.culprit[i].cycle);
	}
	free(s->e.culprit);
}

static struct waited *waits(struct scene *s, size_t from, size_t to, enum wait_kind kind)
{
	struct explained *x = &s->x[from];

	x->wait.kind = kind;
	x->wait.ender = ENDER_THREADS;
	x->idle = kind == WAIT_EVENTS;
	x->edge[x->nedges] = (struct explained_edge){ .to = to, .whom = x->wait.n };
	x->wait.whom[x->wait.n] = (struct waited){ .pid = s->thread[to].pid, .tid = s->thread[to].tid };
	x->nedges++;
	return &x->wait.whom[x->wait.n++];
}

static void ends(struct scene *s, size_t i, enum wait_kind kind, enum wait_ender ender)
{
	s->x[i].wait.kind = kind;
	s->x[i].wait.ender = ender;
}

static void assert_path(const struct culprit *c, const size_t *path, size_t n)
{
	assert_int_equal(c->npath, n);
	assert_memory_equal(c->path, path, n * sizeof(*path));
}

static void test_the_end_of_the_chain_is_to_blame(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 3, 4);
	waits(&s, 0, 1, WAIT_LOCK);
	waits(&s, 2, 1, WAIT_LOCK);
	waits(&s, 1, 3, WAIT_PEER);
	ends(&s, 3, WAIT_TIME, ENDER_TIME);
	assert_true(culprits_find(&s.e));
	assert_int_equal(s.e.nculprits, 1);
	assert_int_equal(s.e.culprit[0].who, 3);
	assert_int_equal(s.e.culprit[0].verdict, VERDICT_SLEEPS);
	assert_int_equal(s.e.culprit[0].waiters, 3);
	assert_path(&s.e.culprit[0], (size_t[]){ 0, 1, 3 }, 3);
	scene_deinit(&s);
}

static void test_a_circle_of_stuck_threads_is_a_deadlock_from_the_first_thread_on(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 2, 2);
	waits(&s, 0, 1, WAIT_LOCK);
	waits(&s, 1, 0, WAIT_LOCK);
	s.x[0].stuck = s.x[1].stuck = true;
	assert_true(culprits_find(&s.e));
	assert_int_equal(s.e.nculprits, 1);
	assert_int_equal(s.e.culprit[0].verdict, VERDICT_DEADLOCK);
	assert_int_equal(s.e.culprit[0].who, 0);
	assert_int_equal(s.e.culprit[0].ncycle, 2);
	assert_memory_equal(s.e.culprit[0].cycle, ((size_t[]){ 0, 1 }), 2 * sizeof(size_t));
	assert_path(&s.e.culprit[0], (size_t[]){ 0 }, 1);
	scene_deinit(&s);
}

static void test_a_circle_that_may_end_is_only_likely(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 1, 3);
	waits(&s, 0, 1, WAIT_PEER);
	waits(&s, 1, 0, WAIT_PEER);
	waits(&s, 1, 2, WAIT_PEER);
	ends(&s, 2, WAIT_TIME, ENDER_TIME);
	assert_true(culprits_find(&s.e));
	assert_int_equal(s.e.culprit[0].verdict, VERDICT_LIKELY_DEADLOCK);
	assert_int_equal(s.e.culprit[0].ncycle, 2);
	scene_deinit(&s);
}

static void test_a_lock_that_is_handed_round_fast_is_no_deadlock(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 2, 2);
	waits(&s, 0, 1, WAIT_LOCK);
	waits(&s, 1, 0, WAIT_LOCK);
	s.thread[1].ran_ns = 1;
	assert_true(culprits_find(&s.e));
	for (size_t i = 0; i < s.e.nculprits; i++)
		assert_int_equal(s.e.culprit[i].ncycle, 0);
	scene_deinit(&s);
}

static void test_a_circle_elsewhere_is_told_from_where_the_way_comes_in(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 1, 4);
	waits(&s, 0, 2, WAIT_PEER);
	waits(&s, 1, 2, WAIT_LOCK);
	waits(&s, 2, 1, WAIT_LOCK);
	s.x[0].stuck = s.x[1].stuck = s.x[2].stuck = true;
	ends(&s, 3, WAIT_TIME, ENDER_TIME);
	assert_true(culprits_find(&s.e));
	assert_int_equal(s.e.nculprits, 1);
	assert_int_equal(s.e.culprit[0].verdict, VERDICT_DEADLOCK);
	assert_int_equal(s.e.culprit[0].who, 2);
	assert_path(&s.e.culprit[0], (size_t[]){ 0, 2 }, 2);
	scene_deinit(&s);
}

static void test_who_waits_for_an_idle_server_is_told_itself(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 1, 2);
	waits(&s, 0, 1, WAIT_PEER);
	waits(&s, 1, 0, WAIT_EVENTS);
	assert_true(culprits_find(&s.e));
	assert_int_equal(s.e.culprit[0].who, 0);
	assert_int_equal(s.e.culprit[0].verdict, VERDICT_WAITS);
	scene_deinit(&s);
}

static void test_a_stopped_peer_of_a_poll_comes_before_the_poll(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 1, 3);
	waits(&s, 0, 1, WAIT_EVENTS);
	waits(&s, 0, 2, WAIT_EVENTS);
	ends(&s, 1, WAIT_STOPPED, ENDER_UNKNOWN);
	waits(&s, 2, 0, WAIT_EVENTS);
	assert_true(culprits_find(&s.e));
	assert_int_equal(s.e.culprit[0].who, 1);
	assert_int_equal(s.e.culprit[0].verdict, VERDICT_STOPPED);
	scene_deinit(&s);
}

static void test_what_is_guessed_comes_after_what_is_known(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 2, 4);
	waits(&s, 0, 2, WAIT_LOCK);
	waits(&s, 1, 3, WAIT_LOCK)->guessed = true;
	ends(&s, 2, WAIT_TIME, ENDER_TIME);
	ends(&s, 3, WAIT_TIME, ENDER_TIME);
	assert_true(culprits_find(&s.e));
	assert_int_equal(s.e.nculprits, 2);
	assert_int_equal(s.e.culprit[0].who, 2);
	assert_false(s.e.culprit[0].guessed);
	assert_int_equal(s.e.culprit[1].who, 3);
	assert_true(s.e.culprit[1].guessed);
	assert_int_equal(s.e.culprit[1].waiters, 0);
	scene_deinit(&s);
}

static void test_one_that_nobody_can_end_comes_before_one_that_sleeps(void **state)
{
	struct scene s;

	(void)state;
	scene_init(&s, 3, 3);
	waits(&s, 0, 1, WAIT_LOCK);
	ends(&s, 1, WAIT_TIME, ENDER_TIME);
	ends(&s, 2, WAIT_LOCK, ENDER_NOBODY);
	assert_true(culprits_find(&s.e));
	assert_int_equal(s.e.culprit[0].who, 2);
	assert_int_equal(s.e.culprit[0].verdict, VERDICT_NOBODY);
	assert_int_equal(s.e.culprit[1].who, 1);
	scene_deinit(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_end_of_the_chain_is_to_blame),
		cmocka_unit_test(test_a_circle_of_stuck_threads_is_a_deadlock_from_the_first_thread_on),
		cmocka_unit_test(test_a_circle_that_may_end_is_only_likely),
		cmocka_unit_test(test_a_lock_that_is_handed_round_fast_is_no_deadlock),
		cmocka_unit_test(test_a_circle_elsewhere_is_told_from_where_the_way_comes_in),
		cmocka_unit_test(test_who_waits_for_an_idle_server_is_told_itself),
		cmocka_unit_test(test_a_stopped_peer_of_a_poll_comes_before_the_poll),
		cmocka_unit_test(test_what_is_guessed_comes_after_what_is_known),
		cmocka_unit_test(test_one_that_nobody_can_end_comes_before_one_that_sleeps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
