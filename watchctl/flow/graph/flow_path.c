#include "watchctl/flow/graph/flow_path.h"

#include <stdbool.h>
#include <stdlib.h>

#include "watchctl/base/vec.h"

uint32_t flow_path_node(const struct flow_graph *g, uint32_t thread, uint64_t ns)
{
	size_t n;
	const struct flow_node *node = flow_graph_nodes(g, &n);

	/* Nodes are in the order of their begins. */
	while (n-- > 0)
		if (node[n].thread == thread && node[n].begin_ns <= ns)
			return (uint32_t)n;
	return FLOW_NONE;
}

/*
 * A lock, a disk, or a child that is waited for inside a unit does not bring the unit about; nor does what the thread had sent itself, as
 * loops do to come round once more, unless the unit began by that.
 */
static bool brings_about(const struct flow_node *node, const struct flow_edge *e, uint64_t ns)
{
	if (e->kind == FLOW_EDGE_WAIT_FOR || e->kind == FLOW_EDGE_WEAK || e->to_ns > ns)
		return false;
	if (e->flags & FLOW_EDGE_BEGINS)
		return true;
	if (node[e->from].thread == node[e->to].thread)
		return false;
	return e->kind == FLOW_EDGE_MESSAGE || e->kind == FLOW_EDGE_WORK || e->kind == FLOW_EDGE_SPAWN;
}

/* The latest one: edges into a node are linked in about that order only. */
static uint32_t cause_of(const struct flow_graph *g, uint32_t node, uint64_t ns)
{
	size_t n;
	const struct flow_edge *edge = flow_graph_edges(g, &n);
	const struct flow_node *all = flow_graph_nodes(g, &n);
	uint32_t best = FLOW_NONE;

	for (uint32_t i = all[node].last_in; i != FLOW_NONE; i = edge[i].next_in)
		if (brings_about(all, &edge[i], ns) &&
		    (best == FLOW_NONE || edge[i].to_ns > edge[best].to_ns))
			best = i;
	return best;
}

static uint64_t length(const struct flow_edge *e)
{
	return e->to_ns - e->from_ns;
}

/* Puts wait @i of the step behind longer ones. */
static bool add_wait(struct flow_path *p, const struct flow_edge *edge, struct flow_step *s, uint32_t i)
{
	size_t k;

	if (!vec_push(p->wait, p->nwaits, p->waits_cap, i))
		return false;
	s->nwaits++;
	for (k = p->nwaits - 1; k > s->wait && length(&edge[p->wait[k - 1]]) < length(&edge[i]); k--)
		p->wait[k] = p->wait[k - 1];
	p->wait[k] = i;
	return true;
}

static bool add_waits(const struct flow_graph *g, struct flow_path *p, struct flow_step *s,
		      unsigned int share)
{
	size_t n;
	const struct flow_edge *edge = flow_graph_edges(g, &n);
	const struct flow_node *node = &flow_graph_nodes(g, &n)[s->node];
	const uint64_t took = s->until_ns - node->begin_ns;

	s->wait = (uint32_t)p->nwaits;
	for (uint32_t i = node->last_in; i != FLOW_NONE; i = edge[i].next_in)
		if (edge[i].kind == FLOW_EDGE_WAIT_FOR && edge[i].from_ns < s->until_ns &&
		    length(&edge[i]) >= took / share && length(&edge[i]) && !add_wait(p, edge, s, i))
			return false;
	return true;
}

static bool has_node(const struct flow_path *p, uint32_t node)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->step[i].node == node)
			return true;
	return false;
}

static struct flow_step make_step(const struct flow_graph *g, uint32_t node, uint64_t ns)
{
	size_t n;
	const struct flow_node *x = &flow_graph_nodes(g, &n)[node];
	const uint64_t until = ns < x->end_ns ? ns : x->end_ns;

	return (struct flow_step){ .node = node,
				   .until_ns = until < x->begin_ns ? x->begin_ns : until,
				   .edge = cause_of(g, node, ns) };
}

/* The thread did not wait between the unit before and @node: FLOW_NONE if it did, or there is none. */
static uint32_t unit_before(const struct flow_graph *g, const struct flow_path *p, uint32_t node)
{
	size_t n;
	const struct flow_node *all = flow_graph_nodes(g, &n);
	const uint32_t before = all[node].before;

	if (before == FLOW_NONE || all[before].end_ns != all[node].begin_ns || has_node(p, before))
		return FLOW_NONE;
	return before;
}

/* Nothing else is known of why it does this: what it had come to do before may be. */
static bool go_on_before(const struct flow_graph *g, struct flow_path *p, uint32_t *node, uint64_t *ns)
{
	const uint32_t before = unit_before(g, p, *node);
	size_t n;

	if (before == FLOW_NONE)
		return false;
	*ns = flow_graph_nodes(g, &n)[*node].begin_ns;
	*node = before;
	p->step[p->n - 1].follows = true;
	p->end = FLOW_PATH_LONG;
	return p->n < FLOW_PATH_STEPS;
}

/* False: the path ends here. Else @node and @ns are where it goes on. */
static bool go_back(const struct flow_graph *g, struct flow_path *p, uint32_t *node, uint64_t *ns)
{
	const struct flow_step *s = &p->step[p->n - 1];
	const struct flow_edge *e;
	size_t n;

	p->end = FLOW_PATH_INPUT;
	if (s->edge == FLOW_NONE)
		return go_on_before(g, p, node, ns);
	e = &flow_graph_edges(g, &n)[s->edge];
	p->end = FLOW_PATH_TIMER;
	if (e->kind == FLOW_EDGE_TIMER && e->flags & FLOW_EDGE_OWN)
		return false;
	p->end = FLOW_PATH_CIRCLE;
	if (has_node(p, e->from))
		return false;
	*node = e->from;
	*ns = e->from_ns;
	p->end = FLOW_PATH_LONG;
	return p->n < FLOW_PATH_STEPS;
}

struct wc_error *flow_path_find(const struct flow_graph *g, uint32_t node, uint64_t ns, unsigned int share,
				struct flow_path *ret)
{
	do {
		struct flow_step *s = &ret->step[ret->n++];

		*s = make_step(g, node, ns);
		if (!add_waits(g, ret, s, share))
			return &wc_enomem;
	} while (go_back(g, ret, &node, &ns));
	return NULL;
}

void flow_path_deinit(struct flow_path *p)
{
	free(p->wait);
	*p = (struct flow_path){ 0 };
}
