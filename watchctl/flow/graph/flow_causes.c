/* flow_causes - what timers, work and requests bring about: found again by their keys. */
#include <stddef.h>

#include "watchctl/base/vec.h"
#include "watchctl/flow/graph/flow_graph_impl.h"

uint32_t flow_graph_put_origin(struct flow_graph *g, uint64_t key, uint32_t node, uint64_t ns)
{
	const struct origin fresh = { .ns = ns, .node = node };
	uint32_t i = flow_graph_find(g, key);

	if (i != FLOW_NONE) {
		g->origin[i] = fresh;
		return i;
	}
	if (!vec_push(g->origin, g->norigins, g->origins_cap, fresh)) {
		g->starved = true;
		return FLOW_NONE;
	}
	i = (uint32_t)g->norigins - 1;
	flow_graph_keep(g, key, i);
	return i;
}

bool flow_graph_get_origin(const struct flow_graph *g, uint64_t key, struct origin *ret)
{
	const uint32_t i = flow_graph_find(g, key);

	if (i == FLOW_NONE || g->origin[i].node == FLOW_NONE || g->origin[i].ns <= g->lost_ns)
		return false;
	*ret = g->origin[i];
	return true;
}

/* Also if not known by whom: the next waking must not be taken for something else's. */
static void set_cause(struct flow_graph *g, struct cpu *cpu, enum key_type type, enum flow_edge_kind kind,
		      uint32_t key)
{
	struct origin o = { .node = FLOW_NONE };

	flow_graph_get_origin(g, flow_graph_key(type, key), &o);
	cpu->cause = (struct cause){ .ns = o.ns, .node = o.node, .key = key, .kind = kind, .set = true };
}

/* A timer that is set again by its own handler stays the one's who set it first. */
static void timer_set(struct flow_graph *g, const struct flow_event *e, const struct cpu *cpu)
{
	if (cpu->is_fired && cpu->fired == e->object)
		return;
	flow_graph_put_origin(g, flow_graph_key(KEY_TIMER, e->object),
			      flow_graph_node_now(g, e->tid, e->time_ns), e->time_ns);
}

static void timer_fired(struct flow_graph *g, const struct flow_event *e, struct cpu *cpu)
{
	set_cause(g, cpu, KEY_TIMER, FLOW_EDGE_TIMER, e->object);
	cpu->is_fired = true;
	cpu->fired = e->object;
}

/* Queued by a timer's handler, it is by whom set the timer; by another interrupt: the next waking says so. */
static void work_queued(struct flow_graph *g, const struct flow_event *e, struct cpu *cpu)
{
	const uint64_t key = flow_graph_key(KEY_WORK, e->object);

	if (cpu->cause.set) {
		flow_graph_put_origin(g, key, cpu->cause.node, cpu->cause.ns);
		return;
	}
	if (cpu->is_fired)
		flow_graph_put_origin(g, key, FLOW_NONE, e->time_ns);
	else
		cpu->queued =
			flow_graph_put_origin(g, key, flow_graph_node_now(g, e->tid, e->time_ns), e->time_ns);
}

static void work_began(struct flow_graph *g, const struct flow_event *e)
{
	struct flow_edge edge = { .kind = FLOW_EDGE_WORK, .object = e->object, .to_ns = e->time_ns };
	struct origin o;
	uint32_t thread;

	edge.to = flow_graph_node_now(g, e->tid, e->time_ns);
	if (edge.to == FLOW_NONE)
		return;
	thread = g->node[edge.to].thread;
	if (g->live[thread].works) {
		flow_graph_end_unit(g, thread, e->time_ns);
		edge.to = flow_graph_begin_unit(g, thread, e->time_ns);
	}
	g->live[thread].works = true;
	if (edge.to == FLOW_NONE || !flow_graph_get_origin(g, flow_graph_key(KEY_WORK, e->object), &o))
		return;
	edge.from = o.node;
	edge.from_ns = o.ns;
	flow_graph_begins(g, flow_graph_add_edge(g, &edge));
}

static void request_done(struct flow_graph *g, const struct flow_event *e, struct cpu *cpu,
			 enum key_type type)
{
	const uint32_t i = flow_graph_find(g, flow_graph_key(type, e->object));

	set_cause(g, cpu, type, FLOW_EDGE_IO, e->object);
	if (i != FLOW_NONE)
		g->origin[i].node = FLOW_NONE;
}

void flow_graph_cause(struct flow_graph *g, const struct flow_event *e)
{
	/* Nodes first: the array of CPUs must not move below. */
	const uint32_t node = e->id == FLOW_BLOCK_ISSUED || e->id == FLOW_URING_SUBMIT
				      ? flow_graph_node_now(g, e->tid, e->time_ns)
				      : FLOW_NONE;
	struct cpu *cpu = flow_graph_cpu(g, e->cpu);

	if (!cpu)
		return;
	switch (e->id) {
	case FLOW_TIMER_SET:
		timer_set(g, e, cpu);
		break;
	case FLOW_TIMER_FIRED:
		timer_fired(g, e, cpu);
		break;
	case FLOW_WORK_QUEUED:
		work_queued(g, e, cpu);
		break;
	case FLOW_WORK_BEGAN:
		work_began(g, e);
		break;
	case FLOW_BLOCK_ISSUED:
		flow_graph_put_origin(g, flow_graph_key(KEY_BLOCK, e->object), node, e->time_ns);
		break;
	case FLOW_BLOCK_DONE:
		request_done(g, e, cpu, KEY_BLOCK);
		break;
	case FLOW_URING_SUBMIT:
		flow_graph_put_origin(g, flow_graph_key(KEY_URING, e->object), node, e->time_ns);
		break;
	case FLOW_URING_DONE:
		request_done(g, e, cpu, KEY_URING);
		break;
	default:
		break;
	}
}
