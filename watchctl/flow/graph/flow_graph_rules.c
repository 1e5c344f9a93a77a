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

uint32_t flow_graph_leader(struct flow_graph *g, uint32_t thread, uint64_t ns)
{
	struct named *n = named_of(g, thread);

	return n ? leader_of(g, n, thread, ns) : FLOW_NO_THREAD;
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

static void give(struct flow_graph *g, uint64_t key, const struct live *l, uint64_t ns)
{
	const struct origin fresh = { .ns = ns, .node = l->node };
	const uint32_t i = flow_graph_find(g, key);

	if (i != FLOW_NONE)
		g->given[i] = fresh;
	else if (vec_push(g->given, g->ngiven, g->given_cap, fresh))
		flow_graph_keep(g, key, (uint32_t)g->ngiven - 1);
	else
		g->starved = true;
}

/* A waking, or bytes of a stream, may have said the same already. */
static bool is_known(const struct flow_graph *g, uint32_t from, const struct live *l,
		     const struct flow_event *e)
{
	for (uint32_t i = g->node[l->node].last_in; i != FLOW_NONE; i = g->edge[i].next_in) {
		const struct flow_edge *edge = &g->edge[i];

		if (edge->to_ns < l->returned_ns)
			break;
		if (edge->from == from && edge->object == e->object && edge->object_kind == e->kind)
			return true;
	}
	return false;
}

static void get(struct flow_graph *g, uint64_t key, uint8_t join, const struct live *l,
		const struct flow_event *e)
{
	const uint32_t i = flow_graph_find(g, key);
	struct flow_edge edge = { .to_ns = e->time_ns,
				  .to = l->node,
				  .kind = (uint8_t)flow_rules_join_edge(g->rules, join),
				  .has_call = true,
				  .call = e->call,
				  .object = e->object,
				  .object_kind = e->kind };

	if (i == FLOW_NONE || g->given[i].ns <= g->lost_ns)
		return;
	edge.from = g->given[i].node;
	edge.from_ns = g->given[i].ns;
	if (edge.from == FLOW_NONE || edge.from == edge.to || is_known(g, edge.from, l, e))
		return;
	flow_graph_begins(g, flow_graph_add_edge(g, &edge));
}

/* The last one that gave to an object leads to who gets from it: a rule says that it is so. */
void flow_graph_join(struct flow_graph *g, uint32_t thread, const struct flow_event *e)
{
	const struct flow_profile *profile = flow_graph_profile(g, thread, e->time_ns);
	const struct live *l = &g->live[thread];
	struct flow_join join;

	if (!profile || e->id != FLOW_CALL_ON || !e->object || l->node == FLOW_NONE)
		return;
	join = flow_rules_join(profile, e);
	if (join.gets)
		get(g, flow_graph_key((enum key_type)(KEY_JOIN + join.gets), e->object), join.gets, l, e);
	if (join.gives)
		give(g, flow_graph_key((enum key_type)(KEY_JOIN + join.gives), e->object), l, e->time_ns);
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
