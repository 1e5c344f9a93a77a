/* flow_graph_rules - which rules are a thread's, by the names that it and its process have, and what they say of edges. */
#include <stddef.h>

#include "watchctl/base/vec.h"
#include "watchctl/flow/graph/flow_graph_impl.h"
#include "watchctl/flow/graph/flow_threads.h"

static struct named *named_of(struct flow_graph *g, uint32_t thread)
{
	const struct named fresh = { .leader = FLOW_NO_THREAD };

	while (g->nnamed <= thread)
		if (!vec_push(g->named, g->nnamed, g->named_cap, fresh)) {
			g->starved = true;
			return NULL;
		}
	return &g->named[thread];
}

/* A process's name is that of its first thread; where that is not known, each thread's own. */
static uint32_t leader_of(struct flow_graph *g, struct named *n, uint32_t thread, uint64_t ns)
{
	const struct flow_thread *t = g->threads.thread;
	const int32_t pid = t[thread].pid;

	if (!pid || t[thread].tid == pid)
		return thread;
	if (n->leader == FLOW_NO_THREAD || t[n->leader].tid != pid || t[n->leader].end_ns < ns)
		n->leader = flow_threads_at(&g->threads, pid, ns);
	return n->leader == FLOW_NO_THREAD ? thread : n->leader;
}

const struct flow_profile *flow_graph_profile(struct flow_graph *g, uint32_t thread, uint64_t ns)
{
	struct named *n = named_of(g, thread);
	uint32_t leader, name, process;

	if (!n)
		return NULL;
	leader = leader_of(g, n, thread, ns);
	name = flow_threads_name(&g->threads, thread, ns);
	process = flow_threads_name(&g->threads, leader, ns);
	if (n->profile && n->name == name && n->process == process)
		return n->profile;
	n->name = name;
	n->process = process;
	n->profile = flow_rules_profile(g->rules, flow_threads_comm(&g->threads, leader, ns),
					flow_threads_comm(&g->threads, thread, ns));
	g->starved |= !n->profile;
	return n->profile;
}

enum flow_return flow_graph_return(struct flow_graph *g, uint32_t thread, const struct flow_event *e)
{
	const struct flow_profile *profile = flow_graph_profile(g, thread, e->time_ns);

	return profile ? flow_rules_return(profile, e) : FLOW_RETURN_PLAIN;
}

static bool edge_is_false(struct flow_graph *g, const struct flow_edge *e)
{
	const struct flow_profile *from, *to;

	if (e->from == FLOW_NONE)
		return false;
	from = flow_graph_profile(g, g->node[e->from].thread, e->from_ns);
	to = flow_graph_profile(g, g->node[e->to].thread, e->to_ns);
	return from && to &&
	       flow_rules_false(g->rules, (enum flow_edge_kind)e->kind, e->object_kind, from, to);
}

/* As if it had been added now: the lists of the nodes are empty at first. */
static void keep_edge(struct flow_graph *g, uint32_t from, uint32_t to)
{
	struct flow_node *node = &g->node[g->edge[from].to];

	if (node->begin_edge == from)
		node->begin_edge = to;
	g->edge[to] = g->edge[from];
	g->edge[to].next_in = node->last_in;
	node->last_in = to;
}

/* Not before the end: what an edge is, is said by a call that returns after it. */
void flow_graph_drop_false(struct flow_graph *g)
{
	uint32_t kept = 0;

	if (!flow_rules_have_false(g->rules))
		return;
	for (size_t i = 0; i < g->nnodes; i++)
		g->node[i].last_in = FLOW_NONE;
	for (uint32_t i = 0; i < g->nedges; i++) {
		if (!edge_is_false(g, &g->edge[i]))
			keep_edge(g, i, kept++);
		else if (g->node[g->edge[i].to].begin_edge == i)
			g->node[g->edge[i].to].begin_edge = FLOW_NONE;
	}
	g->nedges = kept;
}
