/*
 * flow_wakings - who woke whom, and by what. The recorder tells of system calls when they return: a waking by a thread is put down at
 * once, and waits in a list of that thread (live.pending) for the call's return to say what it was. A waking by an interrupt is never
 * put down to the thread that it hit, but to the timer or the request that it was about.
 */
#include <stddef.h>

#include <sys/syscall.h>

#include "watchctl/flow/graph/flow_graph_impl.h"
#include "watchctl/flow/graph/flow_waits.h"

static uint8_t edge_kind_of(const struct flow_event *e)
{
	if (e->id == FLOW_EXIT)
		return FLOW_EDGE_EXIT;
	if (e->id == FLOW_CALL_FUTEX)
		return flow_futex_wakes(e->op) ? FLOW_EDGE_LOCK : FLOW_EDGE_WAKEUP;
	if (e->id == FLOW_CALL_ON && flow_call_sends(e->call))
		return FLOW_EDGE_MESSAGE;
	return flow_call_ends(e->call) ? FLOW_EDGE_MESSAGE : FLOW_EDGE_WAKEUP;
}

static void settle_one(struct flow_graph *g, struct flow_edge *edge, const struct flow_event *e)
{
	edge->object = 0;
	if (edge->flags & FLOW_EDGE_BLOCKED || edge->to_ns <= g->lost_ns ||
	    ((e->id == FLOW_CALL || e->id == FLOW_CALL_ON) && !flow_call_wakes(e->call)))
		return;
	edge->kind = edge_kind_of(e);
	if (e->id == FLOW_EXIT)
		return;
	edge->has_call = true;
	edge->call = e->call;
	if (e->id == FLOW_CALL_FUTEX)
		edge->address = e->address;
	if (e->id != FLOW_CALL_ON)
		return;
	edge->object = e->object;
	edge->object_kind = e->kind;
}

/* @e: the call that now returns, or the exit, is what the thread was doing when it woke others. */
void flow_graph_settle(struct flow_graph *g, struct live *l, const struct flow_event *e)
{
	uint32_t i = l->pending;

	l->pending = FLOW_NONE;
	while (i != FLOW_NONE) {
		const uint32_t next = g->edge[i].object;

		settle_one(g, &g->edge[i], e);
		i = next;
	}
}

static void add_wait(struct flow_graph *g, const struct live *l, uint64_t ns, uint32_t by_edge, uint8_t flags)
{
	const bool has_owner = l->owner != FLOW_NO_THREAD && g->live[l->owner].node != FLOW_NONE;
	struct flow_edge edge = {
		.from_ns = l->wait_ns,
		.to_ns = ns,
		.from = FLOW_NONE,
		.to = l->node,
		.kind = FLOW_EDGE_WAIT_FOR,
		.has_call = l->wait_has_call,
		.call = l->wait_call,
		.object = l->wait_object,
		.object_kind = l->wait_kind,
		.address = l->wait_address,
		.flags = l->wait_flags | flags,
	};

	if (has_owner) {
		edge.from = g->live[l->owner].node;
		edge.flags |= FLOW_EDGE_OWNER;
	} else if (by_edge != FLOW_NONE) {
		edge.from = g->edge[by_edge].from;
	}
	if (edge.from == edge.to)
		edge.flags |= FLOW_EDGE_OWN;
	flow_graph_add_edge(g, &edge);
}

/* A wait in a unit that has begun before events went missing may be another one by now. */
static void begin_or_go_on(struct flow_graph *g, uint32_t thread, uint64_t ns)
{
	struct live *l = &g->live[thread];

	if (l->state == LIVE_WAITS && l->wait_class == FLOW_WAIT_OUT && l->wait_ns <= g->lost_ns)
		flow_graph_end_unit(g, thread, l->wait_ns);
	if (l->node == FLOW_NONE)
		flow_graph_begin_unit(g, thread, ns);
}

void flow_graph_end_wait(struct flow_graph *g, uint32_t thread, uint64_t ns, uint32_t by_edge)
{
	struct live *l = &g->live[thread];
	const bool out = l->state == LIVE_WAITS && l->wait_class == FLOW_WAIT_OUT && l->wait_ns > g->lost_ns;

	begin_or_go_on(g, thread, ns);
	l->state = LIVE_RUNS;
	if (out && l->node != FLOW_NONE)
		add_wait(g, l, ns, by_edge, 0);
}

void flow_graph_leave_open(struct flow_graph *g, uint32_t thread)
{
	const struct live *l = &g->live[thread];

	if (l->state == LIVE_WAITS && l->wait_class == FLOW_WAIT_OUT && l->node != FLOW_NONE &&
	    l->wait_ns > g->lost_ns && !g->threads.thread[thread].gone)
		add_wait(g, l, g->last_ns, FLOW_NONE, FLOW_EDGE_OPEN);
}

/* By the thread itself: what it was doing is said by the next event of it. */
static bool by_thread(struct flow_graph *g, const struct flow_event *e, const struct cpu *cpu,
		      const struct live *woken, struct flow_edge *edge)
{
	const struct live *l;

	edge->from = flow_graph_node_now(g, e->tid, e->time_ns);
	if (edge->from == FLOW_NONE)
		return false;
	l = &g->live[g->node[edge->from].thread];
	edge->from_ns = e->time_ns;
	edge->kind = FLOW_EDGE_WAKEUP;
	edge->flags |= woken->state == LIVE_WAITS ? woken->wait_flags & FLOW_EDGE_BLOCKED : 0;
	edge->signal = cpu->signal;
	if (l->exiting)
		edge->kind = FLOW_EDGE_EXIT;
	if (l->exiting && woken->wait_has_call) {
		edge->has_call = true;
		edge->call = woken->wait_call;
	}
	return true;
}

/* By an interrupt: false if it is not known what that was about. */
static bool by_cause(const struct flow_graph *g, struct cpu *cpu, uint32_t woken, struct flow_edge *edge)
{
	const struct cause c = cpu->cause;

	cpu->cause.set = false;
	if (!c.set || c.node == FLOW_NONE || c.ns <= g->lost_ns)
		return false;
	edge->from = c.node;
	edge->from_ns = c.ns;
	edge->kind = c.kind;
	edge->object = c.key;
	if (g->node[c.node].thread == woken)
		edge->flags |= FLOW_EDGE_OWN;
	return true;
}

static void hold_pending(struct flow_graph *g, uint32_t edge)
{
	struct live *l = &g->live[g->node[g->edge[edge].from].thread];

	/* From an uninterruptible wait a lock of the kernel's, or memory, was given, which no call is about. */
	if (g->edge[edge].kind != FLOW_EDGE_WAKEUP || g->edge[edge].flags & FLOW_EDGE_BLOCKED)
		return;
	g->edge[edge].object = l->pending;
	l->pending = edge;
}

/* A packet's softirq runs at the end of the thread's own send, too: its next return tells. */
static void note_softirq(struct flow_graph *g, const struct flow_event *e, uint32_t woken)
{
	const uint32_t node = flow_graph_node_now(g, e->tid, e->time_ns);
	struct live *l;

	if (node == FLOW_NONE)
		return;
	l = &g->live[g->node[node].thread];
	l->soft_target = woken;
	l->soft_node = g->live[woken].node;
	l->soft_ns = e->time_ns;
}

/* Work that was queued just before, by the interrupt that now wakes a worker: not by the thread that was hit. */
static void check_queued(struct flow_graph *g, const struct flow_event *e, struct cpu *cpu)
{
	if (cpu->queued != FLOW_NONE && e->why != FLOW_BY_THREAD)
		g->origin[cpu->queued].node = FLOW_NONE;
	cpu->queued = FLOW_NONE;
}

/* False: @edge has no origin that is known. @thread is woken. */
static bool find_waker(struct flow_graph *g, const struct flow_event *e, struct cpu *cpu, uint32_t thread,
		       struct flow_edge *edge)
{
	if (e->tid < 0)
		return false;
	if (e->why == FLOW_BY_THREAD)
		return by_thread(g, e, cpu, &g->live[thread], edge);
	return (e->why == FLOW_BY_SOFTIRQ || e->why == FLOW_BY_IRQ) && by_cause(g, cpu, thread, edge);
}

static uint32_t add_waking(struct flow_graph *g, uint32_t thread, struct flow_edge *edge)
{
	const bool idle = g->live[thread].node == FLOW_NONE;
	uint32_t i;

	begin_or_go_on(g, thread, edge->to_ns);
	edge->to = g->live[thread].node;
	if (edge->to == FLOW_NONE)
		return FLOW_NONE;
	i = flow_graph_add_edge(g, edge);
	if (idle || g->node[edge->to].begin_ns == edge->to_ns)
		flow_graph_begins(g, i);
	return i;
}

static void take_waking(struct flow_graph *g, const struct flow_event *e, struct cpu *cpu, uint32_t thread)
{
	struct flow_edge edge = { .to_ns = e->time_ns };
	const bool has_cause = cpu->cause.set;
	const bool known = find_waker(g, e, cpu, thread, &edge);
	const uint32_t i = known ? add_waking(g, thread, &edge) : FLOW_NONE;

	flow_graph_end_wait(g, thread, e->time_ns, i);
	if (i != FLOW_NONE && e->why == FLOW_BY_THREAD)
		hold_pending(g, i);
	if (e->why == FLOW_BY_SOFTIRQ && !has_cause && e->tid > 0)
		note_softirq(g, e, thread);
}

/*
 * The thread is about to sleep, and is kept from it; or it sleeps already, but its CPU has not told yet. Both were brought about by the
 * waker: which it is shows in the thread's next event.
 */
static void take_early(struct flow_graph *g, const struct flow_event *e, struct cpu *cpu, uint32_t thread)
{
	struct flow_edge edge = { .to_ns = e->time_ns };
	const bool known = g->live[thread].node != FLOW_NONE && find_waker(g, e, cpu, thread, &edge);
	const uint32_t i =
		known && edge.from != g->live[thread].node ? add_waking(g, thread, &edge) : FLOW_NONE;

	cpu->cause.set = false;
	if (i == FLOW_NONE)
		return;
	g->live[thread].early = i;
	if (e->why == FLOW_BY_THREAD)
		hold_pending(g, i);
}

/* The wait was an uninterruptible one: as in hold_pending(), no call is about that, also if one has been found already. */
static void take_back_call(struct flow_edge *edge)
{
	edge->flags |= FLOW_EDGE_BLOCKED;
	if (!edge->has_call)
		return;
	edge->kind = FLOW_EDGE_WAKEUP;
	edge->has_call = false;
	edge->object = 0;
	edge->object_kind = FLOW_KIND_NONE;
	edge->address = 0;
}

/* It does sleep, and was woken at once: the waking is of the unit that begins. */
void flow_graph_woken_early(struct flow_graph *g, uint32_t thread, uint64_t ns)
{
	const uint32_t i = g->live[thread].early;
	struct flow_edge *edge = &g->edge[i];
	const uint32_t old = edge->to;

	g->live[thread].early = FLOW_NONE;
	if (g->live[thread].wait_flags & FLOW_EDGE_BLOCKED)
		take_back_call(edge);
	flow_graph_end_wait(g, thread, ns, i);
	edge = &g->edge[i];
	if (g->live[thread].node == FLOW_NONE || g->live[thread].node == old || g->node[old].last_in != i)
		return;
	g->node[old].last_in = edge->next_in;
	if (g->node[old].begin_edge == i)
		g->node[old].begin_edge = FLOW_NONE;
	edge->flags &= (uint8_t)~FLOW_EDGE_BEGINS;
	edge->to = g->live[thread].node;
	edge->next_in = g->node[edge->to].last_in;
	g->node[edge->to].last_in = i;
	flow_graph_begins(g, i);
}

void flow_graph_waking(struct flow_graph *g, const struct flow_event *e)
{
	struct cpu *cpu;
	uint32_t thread;

	if (e->other <= 0)
		return;
	/* The waker's entries first: no array may move below. */
	if (e->why == FLOW_BY_THREAD && e->tid > 0)
		flow_graph_node_now(g, e->tid, e->time_ns);
	thread = flow_graph_thread(g, e->other, e->time_ns);
	cpu = flow_graph_cpu(g, e->cpu);
	if (!cpu || thread == FLOW_NONE)
		return;
	check_queued(g, e, cpu);
	if (g->live[thread].state != LIVE_RUNS)
		take_waking(g, e, cpu, thread);
	else
		take_early(g, e, cpu, thread);
	cpu->signal = 0;
	if (e->why == FLOW_BY_THREAD)
		cpu->cause.set = cpu->is_fired = false;
}
