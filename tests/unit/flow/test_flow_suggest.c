/* Rules that a graph gives reason for: a loop's wait that no rule names, and what only looks like one. */
#include "tests/unit/flow/flow_events.h"

#include <stdbool.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/flow/graph/flow_suggest.h"
#include "watchctl/flow/rules/flow_rules.h"

#define SERVER 20
#define FIRST_CLIENT 30

static struct flow_graph *graph_by(const char *text)
{
	struct flow_rules *rules;
	struct flow_graph *g;

	assert_null(flow_rules_new_text("a.rules", text, &rules));
	g = flow_graph_new_by(rules);
	assert_non_null(g);
	name(g, SERVER, SERVER, "server");
	RUN(1, 0, SERVER);
	return g;
}

/* @tid sleeps in @call, and is woken by @by, @times times by each of @clients threads. */
static uint64_t rounds(struct flow_graph *g, uint64_t ns, int32_t tid, int call, int clients, int times)
{
	for (int i = 0; i < clients * times; i++) {
		const int32_t by = FIRST_CLIENT + i % clients;

		if (by == tid)
			continue;
		SLEEP_IN(ns + 1, 0, tid, (uint16_t)call);
		RUN(ns + 2, 1, by);
		WAKE(ns + 3, 1, by, tid, THREAD);
		EV(ns + 4, 1, by, FLOW_SWITCH, .why = FLOW_PREEMPTED);
		RUN(ns + 5, 0, tid);
		ns += 10;
	}
	return ns;
}

static struct flow_suggestions found_in(struct flow_graph *g)
{
	struct flow_suggestions found = { 0 };

	flow_graph_end(g);
	assert_null(flow_suggest(g, &found));
	return found;
}

static size_t found_of(const char *text, int call, int clients, int times)
{
	scoped(flow_graph_freep) struct flow_graph *g = graph_by(text);
	struct flow_suggestions found;
	size_t n;

	rounds(g, 10, SERVER, call, clients, times);
	found = found_in(g);
	n = found.n;
	flow_suggestions_deinit(&found);
	return n;
}

static void test_a_loop_whose_wait_no_rule_names(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = graph_by("");
	struct flow_suggestions found;

	rounds(g, 10, SERVER, SYS_semop, 4, 3);
	found = found_in(g);
	assert_int_equal(found.n, 1);
	assert_int_equal(flow_graph_threads(g)->thread[found.of[0].thread].tid, SERVER);
	assert_int_equal(found.of[0].call, SYS_semop);
	assert_int_equal(found.of[0].object_kind, FLOW_KIND_NONE);
	assert_int_equal(found.of[0].waits, 12);
	assert_int_equal(found.of[0].served, 12);
	assert_int_equal(found.of[0].messages, 12);
	assert_int_equal(found.of[0].origins, 4);
	assert_int_equal(found.of[0].units, 1);
	flow_suggestions_deinit(&found);
	(void)state;
}

static void test_fewer_waits_or_origins_are_no_reason(void **state)
{
	assert_int_equal(found_of("", SYS_semop, 3, 3), 1);
	assert_int_equal(found_of("", SYS_semop, 7, 1), 0);
	assert_int_equal(found_of("", SYS_semop, 2, 20), 0);
	(void)state;
}

static void test_what_a_rule_names_is_not_suggested(void **state)
{
	assert_int_equal(found_of("idle process server semop on none", SYS_semop, 4, 4), 0);
	assert_int_equal(found_of("inside process server semop", SYS_semop, 4, 4), 0);
	assert_int_equal(found_of("inside process other semop", SYS_semop, 4, 4), 1);
	assert_int_equal(found_of("inside process server semop on pipe", SYS_semop, 4, 4), 1);
	(void)state;
}

static void test_what_the_work_at_hand_needs_is_not_suggested(void **state)
{
	assert_int_equal(found_of("", SYS_wait4, 4, 4), 0);
	assert_int_equal(found_of("", SYS_flock, 4, 4), 0);
	assert_int_equal(found_of("", SYS_write, 4, 4), 0);
	(void)state;
}

static void test_threads_that_wait_for_each_other_have_a_lock(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = graph_by("");
	struct flow_suggestions found;
	uint64_t ns = 10;

	for (int32_t i = 0; i < 5; i++)
		name(g, FIRST_CLIENT + i, FIRST_CLIENT + i, "peer");
	for (int32_t i = 0; i < 5; i++)
		ns = rounds(g, ns, FIRST_CLIENT + i, SYS_semop, 5, 3);
	found = found_in(g);
	assert_int_equal(found.n, 0);
	flow_suggestions_deinit(&found);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_loop_whose_wait_no_rule_names),
		cmocka_unit_test(test_fewer_waits_or_origins_are_no_reason),
		cmocka_unit_test(test_what_a_rule_names_is_not_suggested),
		cmocka_unit_test(test_what_the_work_at_hand_needs_is_not_suggested),
		cmocka_unit_test(test_threads_that_wait_for_each_other_have_a_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
