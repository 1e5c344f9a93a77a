/* Events of the system made by hand, for the tests of the graph. */
#ifndef TESTS_UNIT_FLOW_FLOW_EVENTS_H
#define TESTS_UNIT_FLOW_FLOW_EVENTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <sys/syscall.h>

#include "watchctl/flow/graph/flow_graph.h"

/* A test may feed something else with the same events. */
#ifndef ALSO_FEED
#define ALSO_FEED(G, E) (void)0
#endif

#define EV(NS, CPU, TID, ID, ...) \
	put(g, &(struct flow_event){ .time_ns = NS, .cpu = CPU, .tid = TID, .id = ID, __VA_ARGS__ })

static inline void put(struct flow_graph *g, const struct flow_event *e)
{
	assert_null(flow_graph_feed(g, e));
	ALSO_FEED(g, e);
}

static inline void name(struct flow_graph *g, int32_t tid, int32_t pid, const char *comm)
{
	struct flow_event e = { .cpu = FLOW_CPU_NAMES, .id = FLOW_NAME, .tid = -1, .other = tid, .pid = pid };

	snprintf(e.comm, sizeof(e.comm), "%s", comm);
	put(g, &e);
}

/* The thread that runs leaves in a wait; next: idle. */
#define SLEEP_ON(NS, CPU, TID, CALL, KIND, OBJECT)                                                 \
	EV(NS, CPU, TID, FLOW_WAIT_ON, .why = FLOW_SLEEPS, .call = CALL, .kind = FLOW_KIND_##KIND, \
	   .object = OBJECT)
#define SLEEP_IN(NS, CPU, TID, CALL) EV(NS, CPU, TID, FLOW_WAIT_CALL, .why = FLOW_SLEEPS, .call = CALL)
#define RUN(NS, CPU, TID) EV(NS, CPU, 0, FLOW_SWITCH, .other = TID)
#define WAKE(NS, CPU, TID, TARGET, CONTEXT) \
	EV(NS, CPU, TID, FLOW_WAKING, .other = TARGET, .why = FLOW_BY_##CONTEXT)
#define DONE_ON(NS, CPU, TID, CALL, KIND, OBJECT, RESULT)                                        \
	EV(NS, CPU, TID, FLOW_CALL_ON, .call = CALL, .kind = FLOW_KIND_##KIND, .object = OBJECT, \
	   .result = RESULT)

/* The edge number @i of those into the unit that @tid has at @ns, the last one first; NULL: there are not so many. */
static inline const struct flow_edge *edge_into(struct flow_graph *g, int32_t tid, uint64_t ns, size_t i)
{
	const struct flow_threads *t = flow_graph_threads(g);
	size_t n, nedges;
	const struct flow_node *node = flow_graph_nodes(g, &n);
	const struct flow_edge *edge = flow_graph_edges(g, &nedges);

	for (size_t k = n; k-- > 0;) {
		uint32_t e = node[k].last_in;

		if (t->thread[node[k].thread].tid != tid || node[k].begin_ns > ns || node[k].end_ns < ns)
			continue;
		while (e != FLOW_NONE && i--)
			e = edge[e].next_in;
		return e == FLOW_NONE ? NULL : &edge[e];
	}
	return NULL;
}

static inline int32_t tid_of(struct flow_graph *g, uint32_t node)
{
	size_t n;
	const struct flow_node *all = flow_graph_nodes(g, &n);

	assert_in_range(node, 0, n - 1);
	return flow_graph_threads(g)->thread[all[node].thread].tid;
}

/* Threads 10 (process 10) on CPU 0 and 20 (process 20) on CPU 1. */
static inline struct flow_graph *two_programs(void)
{
	struct flow_graph *g = flow_graph_new();

	assert_non_null(g);
	name(g, 10, 10, "client");
	name(g, 20, 20, "server");
	RUN(1, 0, 10);
	RUN(1, 1, 20);
	return g;
}

static inline size_t count_edges(struct flow_graph *g)
{
	size_t n;

	flow_graph_edges(g, &n);
	return n;
}

#endif
