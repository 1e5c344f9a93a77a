#include "watchctl/cli/flow/graph/flow_graph_choice.h"

#include <stdlib.h>

#include "watchctl/cli/flow/graph/flow_graph_who.h"

#define SECOND_NS 1000000000u

static bool has_node(const struct flow_choice *c, uint32_t i)
{
	const struct flow_node *n = &c->s->node[i];

	if (n->end_ns < c->from_ns || n->begin_ns > c->to_ns)
		return false;
	return !c->ask->process || flow_who_is(c->s, i, c->ask->process, n->end_ns);
}

bool flow_choice_has_edge(const struct flow_choice *c, const struct flow_edge *e)
{
	if (e->to_ns < c->from_ns || e->from_ns > c->to_ns)
		return false;
	return has_node(c, e->to) || (e->from != FLOW_NONE && has_node(c, e->from));
}

/* Nodes that edges lead from or to are printed, too, whose ever they are. */
static bool is_end_of_edge(const struct flow_choice *c, uint32_t i)
{
	for (uint32_t k = c->s->node[i].last_in; k != FLOW_NONE; k = c->s->edge[k].next_in)
		if (flow_choice_has_edge(c, &c->s->edge[k]))
			return true;
	return false;
}

bool *flow_choice_nodes(const struct flow_choice *c)
{
	bool *chosen = calloc(c->s->nnodes + 1, sizeof(*chosen));

	if (!chosen)
		return NULL;
	for (uint32_t i = 0; i < c->s->nnodes; i++)
		chosen[i] = has_node(c, i) || is_end_of_edge(c, i);
	for (size_t i = 0; i < c->s->nedges; i++)
		if (c->s->edge[i].from != FLOW_NONE && flow_choice_has_edge(c, &c->s->edge[i]))
			chosen[c->s->edge[i].from] = true;
	return chosen;
}

static struct wc_error *choose_time(struct flow_choice *c)
{
	const uint64_t half = (c->ask->window_ns ? c->ask->window_ns : SECOND_NS) / 2;
	uint64_t at;
	struct wc_error *err;

	c->to_ns = UINT64_MAX;
	if (!c->ask->around)
		return NULL;
	err = flow_shown_time(c->s, "--around", c->ask->around, c->ask->utc, &at);
	if (err)
		return err;
	c->from_ns = at > half ? at - half : 0;
	c->to_ns = at > UINT64_MAX - half ? UINT64_MAX : at + half;
	return flow_when_check(c->s, "--around", c->from_ns, c->to_ns, c->ask->utc);
}

struct wc_error *flow_choice_check_process(const struct flow_shown *s, const struct flow_graph_ask *ask)
{
	const char *who = ask->process;
	struct wc_error *err = who ? flow_who_check("--process", who) : NULL;

	if (err || !who)
		return err;
	for (uint32_t i = 0; i < s->nnodes; i++)
		if (flow_who_is(s, i, who, s->node[i].end_ns))
			return NULL;
	return flow_who_unknown(s, ask->log, who);
}

struct wc_error *flow_choice_make(const struct flow_shown *s, const struct flow_graph_ask *ask,
				  struct flow_choice *ret)
{
	struct flow_choice c = { .s = s, .ask = ask };
	struct wc_error *err = choose_time(&c);

	if (!err)
		err = flow_choice_check_process(s, ask);
	if (!err)
		*ret = c;
	return err;
}
