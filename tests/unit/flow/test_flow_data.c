/* Edges of kind data: who reads what another thread has written into a watched variable. */
#include <stdint.h>

#include "tests/unit/flow/flow_events.h"

#include "watchctl/base/cleanup.h"

static void touch(struct flow_graph *g, uint64_t ns, int32_t tid, uint32_t variable, bool reads, bool writes)
{
	const struct flow_access a = {
		.time_ns = ns, .tid = tid, .variable = variable, .reads = reads, .writes = writes
	};

	assert_null(flow_graph_access(g, &a));
}

#define READS(NS, TID, VARIABLE) touch(g, NS, TID, VARIABLE, true, false)
#define WRITES(NS, TID, VARIABLE) touch(g, NS, TID, VARIABLE, false, true)
#define ADDS(NS, TID, VARIABLE) touch(g, NS, TID, VARIABLE, true, true)

static void test_a_read_leads_back_to_the_last_write_of_another_thread(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();
	const struct flow_edge *e;

	WRITES(2, 10, 0);
	WRITES(3, 10, 0);
	READS(4, 20, 0);
	flow_graph_end(g);
	e = edge_into(g, 20, 4, 0);
	assert_non_null(e);
	assert_int_equal(e->kind, FLOW_EDGE_DATA);
	assert_int_equal(tid_of(g, e->from), 10);
	assert_int_equal(e->from_ns, 3);
	assert_int_equal(e->to_ns, 4);
	assert_null(edge_into(g, 20, 4, 1));
	(void)state;
}

static void test_who_looks_again_and_again_has_one_edge_of_each_write(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	WRITES(2, 10, 0);
	for (uint64_t ns = 3; ns < 9; ns++)
		READS(ns, 20, 0);
	assert_int_equal(count_edges(g), 1);
	WRITES(9, 10, 0);
	READS(10, 20, 0);
	READS(11, 20, 0);
	assert_int_equal(count_edges(g), 2);
	(void)state;
}

static void test_what_a_thread_wrote_itself_and_other_variables_bring_on_nobody(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	READS(2, 20, 0);
	WRITES(3, 20, 0);
	READS(4, 20, 0);
	WRITES(5, 10, 1);
	READS(6, 20, 0);
	assert_int_equal(count_edges(g), 0);
	(void)state;
}

static void test_who_reads_and_writes_at_once_hands_on(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	ADDS(2, 10, 0);
	ADDS(3, 20, 0);
	ADDS(4, 10, 0);
	flow_graph_end(g);
	assert_int_equal(edge_into(g, 20, 3, 0)->from_ns, 2);
	assert_int_equal(edge_into(g, 10, 4, 0)->from_ns, 3);
	(void)state;
}

static void test_across_lost_accesses_there_is_no_edge(void **state)
{
	scoped(flow_graph_freep) struct flow_graph *g = two_programs();

	WRITES(2, 10, 0);
	flow_graph_accesses_lost(g);
	READS(4, 20, 0);
	assert_int_equal(count_edges(g), 0);
	WRITES(5, 10, 0);
	READS(6, 20, 0);
	assert_int_equal(count_edges(g), 1);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_read_leads_back_to_the_last_write_of_another_thread),
		cmocka_unit_test(test_who_looks_again_and_again_has_one_edge_of_each_write),
		cmocka_unit_test(test_what_a_thread_wrote_itself_and_other_variables_bring_on_nobody),
		cmocka_unit_test(test_who_reads_and_writes_at_once_hands_on),
		cmocka_unit_test(test_across_lost_accesses_there_is_no_edge),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
