/*
 * flow_data - who read what another thread had written into a watched variable. The accesses come from another log, which has all of
 * them, or says since when it has not.
 */
#include <stddef.h>

#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/flow/graph/flow_graph_impl.h"

static const struct variable unwritten = { .node = FLOW_NONE };

static struct variable *variable_of(struct flow_graph *g, uint32_t i)
{
	while (g->nvariables <= i && !g->starved)
		g->starved |= !vec_push(g->variable, g->nvariables, g->variables_cap, unwritten);
	return g->starved ? NULL : &g->variable[i];
}

/* The unit has read what was written then: who looks again and again gets one edge. */
static bool has_read(const struct flow_graph *g, uint32_t node, const struct flow_edge *edge)
{
	for (uint32_t i = g->node[node].last_in; i != FLOW_NONE; i = g->edge[i].next_in) {
		const struct flow_edge *e = &g->edge[i];

		if (e->kind == FLOW_EDGE_DATA && !e->has_call && e->object == edge->object &&
		    e->from_ns == edge->from_ns && e->from == edge->from)
			return true;
		if (e->to_ns < edge->from_ns)
			return false;
	}
	return false;
}

static void take_read(struct flow_graph *g, const struct variable *v, uint32_t node, uint64_t ns, uint32_t i)
{
	const struct flow_edge edge = { .from_ns = v->written_ns,
					.to_ns = ns,
					.from = v->node,
					.to = node,
					.kind = FLOW_EDGE_DATA,
					.object = i };

	if (v->node == FLOW_NONE || g->node[v->node].thread == g->node[node].thread)
		return;
	if (!has_read(g, node, &edge))
		flow_graph_begins(g, flow_graph_add_edge(g, &edge));
}

struct wc_error *flow_graph_access(struct flow_graph *g, const struct flow_access *a)
{
	const uint32_t node = flow_graph_node_now(g, a->tid, a->time_ns);
	struct variable *v = variable_of(g, a->variable);

	if (!v)
		return &wc_enomem;
	if (g->last_ns < a->time_ns)
		g->last_ns = a->time_ns;
	if (node != FLOW_NONE && a->reads)
		take_read(g, v, node, a->time_ns, a->variable);
	if (a->writes) {
		v->node = node;
		v->written_ns = a->time_ns;
	}
	return g->starved ? &wc_enomem : NULL;
}

void flow_graph_accesses_lost(struct flow_graph *g)
{
	for (size_t i = 0; i < g->nvariables; i++)
		g->variable[i].node = FLOW_NONE;
}
