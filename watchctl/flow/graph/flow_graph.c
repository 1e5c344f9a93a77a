#include "watchctl/flow/graph/flow_graph.h"

#include <stdlib.h>

#include "watchctl/base/vec.h"
#include "watchctl/flow/graph/flow_graph_impl.h"
#include "watchctl/flow/graph/flow_waits.h"

static const struct live unseen = {
	.node = FLOW_NONE,
	.last = FLOW_NONE,
	.pending = FLOW_NONE,
	.early = FLOW_NONE,
	.owner = FLOW_NO_THREAD,
	.blocked = FLOW_NONE,
	.soft_target = FLOW_NONE,
	.soft_node = FLOW_NONE,
	.sender = FLOW_NONE,
};

/* Entries for the threads that the last event has added. */
static void grow_live(struct flow_graph *g)
{
	while (g->nlive < g->threads.n && !g->starved)
		g->starved |= !vec_push(g->live, g->nlive, g->live_cap, unseen);
}

uint32_t flow_graph_thread(struct flow_graph *g, int32_t tid, uint64_t ns)
{
	const uint32_t i = flow_threads_now(&g->threads, tid, ns);

	g->starved |= i == FLOW_NO_THREAD;
	grow_live(g);
	return g->starved ? FLOW_NONE : i;
}

uint32_t flow_graph_begin_unit(struct flow_graph *g, uint32_t thread, uint64_t ns)
{
	struct live *l = &g->live[thread];
	const bool follows = l->last != FLOW_NONE && g->node[l->last].end_ns > g->lost_ns;
	const struct flow_node fresh = {
		.begin_ns = ns,
		.end_ns = UINT64_MAX,
		.thread = thread,
		.before = follows ? l->last : FLOW_NONE,
		.last_in = FLOW_NONE,
		.begin_edge = FLOW_NONE,
		.object = l->wait_object,
		.call = l->wait_call,
		.object_kind = l->wait_kind,
		.has_call = l->wait_has_call,
	};

	if (!vec_push(g->node, g->nnodes, g->nodes_cap, fresh)) {
		g->starved = true;
		return FLOW_NONE;
	}
	l->state = LIVE_RUNS;
	l->works = l->has_read = l->wait_has_call = l->begun = false;
	l->sender = FLOW_NONE;
	return l->node = (uint32_t)g->nnodes - 1;
}

void flow_graph_end_unit(struct flow_graph *g, uint32_t thread, uint64_t ns)
{
	struct live *l = &g->live[thread];

	if (l->node == FLOW_NONE)
		return;
	g->node[l->node].end_ns = ns;
	l->last = l->node;
	l->node = FLOW_NONE;
}

/* A thread that does something does not wait, even if the waking was not recorded. */
uint32_t flow_graph_node_now(struct flow_graph *g, int32_t tid, uint64_t ns)
{
	uint32_t thread;

	if (tid <= 0)
		return FLOW_NONE;
	thread = flow_graph_thread(g, tid, ns);
	if (thread == FLOW_NONE)
		return FLOW_NONE;
	if (g->live[thread].state == LIVE_WAITS)
		flow_graph_end_wait(g, thread, ns, FLOW_NONE);
	if (g->live[thread].node == FLOW_NONE)
		flow_graph_begin_unit(g, thread, ns);
	return g->live[thread].node;
}

struct cpu *flow_graph_cpu(struct flow_graph *g, uint32_t cpu)
{
	const struct cpu fresh = { .queued = FLOW_NONE };

	while (g->ncpus <= cpu && !g->starved)
		g->starved |= !vec_push(g->cpu, g->ncpus, g->cpus_cap, fresh);
	return g->starved ? NULL : &g->cpu[cpu];
}

uint32_t flow_graph_add_edge(struct flow_graph *g, const struct flow_edge *e)
{
	if (g->starved || !vec_push(g->edge, g->nedges, g->edges_cap, *e)) {
		g->starved = true;
		return FLOW_NONE;
	}
	g->edge[g->nedges - 1].next_in = g->node[e->to].last_in;
	g->node[e->to].last_in = (uint32_t)g->nedges - 1;
	return (uint32_t)g->nedges - 1;
}

void flow_graph_begins(struct flow_graph *g, uint32_t edge)
{
	struct flow_node *to;

	if (edge == FLOW_NONE)
		return;
	to = &g->node[g->edge[edge].to];
	if (to->begin_edge != FLOW_NONE)
		return;
	to->begin_edge = edge;
	g->edge[edge].flags |= FLOW_EDGE_BEGINS;
}

/* Words that look like a mutex are one only if a thread that may have it is there. */
static uint32_t lock_owner(struct flow_graph *g, uint32_t thread, const struct flow_event *e)
{
	const int32_t tid = flow_futex_owner(e);
	const struct flow_thread *t = g->threads.thread;
	uint32_t i;

	if (!tid)
		return FLOW_NO_THREAD;
	i = flow_threads_at(&g->threads, tid, e->time_ns);
	if (i == FLOW_NO_THREAD || i == thread)
		return FLOW_NO_THREAD;
	if (!flow_futex_is_shared(e) && (!t[i].pid || t[i].pid != t[thread].pid))
		return FLOW_NO_THREAD;
	return i;
}

static void keep_wait(struct live *l, const struct flow_event *e)
{
	l->state = LIVE_WAITS;
	l->wait_ns = e->time_ns;
	l->wait_has_call = e->id != FLOW_SWITCH;
	l->wait_call = e->call;
	l->wait_kind = e->kind;
	l->wait_object = e->object;
	l->wait_address = e->address;
	l->wait_flags = (e->why & FLOW_WHY_FAULT ? FLOW_EDGE_FAULT : 0) |
			((e->why & FLOW_WHY_MASK) == FLOW_BLOCKED ? FLOW_EDGE_BLOCKED : 0);
}

/* Of what woke others since the last call only a sleep in the same call tells nothing new; an idle wait is another call. */
static void forget_pending(struct flow_graph *g, struct live *l)
{
	for (uint32_t i = l->pending; i != FLOW_NONE;) {
		const uint32_t next = g->edge[i].object;

		g->edge[i].object = 0;
		i = next;
	}
	l->pending = FLOW_NONE;
}

static void thread_leaves(struct flow_graph *g, const struct flow_event *e)
{
	const struct flow_profile *profile;
	struct live *l;
	uint32_t thread, owner;

	if (flow_graph_node_now(g, e->tid, e->time_ns) == FLOW_NONE)
		return;
	thread = flow_graph_thread(g, e->tid, e->time_ns);
	profile = flow_graph_profile(g, thread, e->time_ns);
	if (!profile)
		return;
	owner = lock_owner(g, thread, e);
	l = &g->live[thread];
	l->wait_class = (uint8_t)flow_rules_wait(profile, e, owner != FLOW_NO_THREAD);
	if (l->wait_class == FLOW_WAIT_NONE) {
		l->early = FLOW_NONE;
		/* It may wait by now, so that a waking is no early one. */
		if ((e->why & FLOW_WHY_MASK) == FLOW_UNTOLD)
			l->state = LIVE_UNSEEN;
		return;
	}
	l->owner = owner;
	keep_wait(l, e);
	flow_graph_stream_wait(g, thread, e);
	flow_graph_signals_wait(g, thread, e);
	if (l->wait_class == FLOW_WAIT_IDLE) {
		forget_pending(g, l);
		flow_graph_end_unit(g, thread, e->time_ns);
	}
	if (l->early != FLOW_NONE)
		flow_graph_woken_early(g, thread, e->time_ns);
}

static void take_death(struct flow_graph *g, const struct flow_event *e)
{
	/* Its last incarnation, which flow_threads_feed() has marked as gone by now. */
	const uint32_t thread = flow_threads_at(&g->threads, e->tid, e->time_ns);

	if (thread == FLOW_NO_THREAD)
		return;
	forget_pending(g, &g->live[thread]);
	flow_graph_stream_unblock(g, &g->live[thread]);
	flow_graph_end_unit(g, thread, e->time_ns);
}

static void take_switch(struct flow_graph *g, const struct flow_event *e)
{
	if (e->tid > 0 && (e->why & FLOW_WHY_MASK) == FLOW_DEAD)
		take_death(g, e);
	else
		thread_leaves(g, e);
	flow_graph_node_now(g, e->other, e->time_ns);
}

static void take_fork(struct flow_graph *g, const struct flow_event *e)
{
	const uint32_t from = flow_graph_node_now(g, e->tid, e->time_ns);
	const uint32_t child = flow_graph_thread(g, e->other, e->time_ns);
	struct flow_edge edge = { .from_ns = e->time_ns,
				  .to_ns = e->time_ns,
				  .from = from,
				  .kind = FLOW_EDGE_SPAWN,
				  .object = (uint32_t)e->other };

	if (child == FLOW_NONE)
		return;
	g->live[child].signals_known = true;
	edge.to = flow_graph_begin_unit(g, child, e->time_ns);
	if (from != FLOW_NONE && edge.to != FLOW_NONE)
		flow_graph_begins(g, flow_graph_add_edge(g, &edge));
}

static void take_exit(struct flow_graph *g, const struct flow_event *e)
{
	struct live *l;

	if (flow_graph_node_now(g, e->tid, e->time_ns) == FLOW_NONE)
		return;
	l = &g->live[flow_graph_thread(g, e->tid, e->time_ns)];
	flow_graph_settle(g, l, e);
	l->exiting = true;
}

/* A thread that executes a program under its process's number goes on as that thread. */
static void take_exec(struct flow_graph *g, const struct flow_event *e)
{
	const uint32_t thread = e->tid > 0 ? flow_graph_thread(g, e->tid, e->time_ns) : FLOW_NONE;
	uint32_t old;

	if (thread == FLOW_NONE || e->other == e->tid)
		return;
	old = flow_threads_at(&g->threads, e->other, e->time_ns);
	if (old != FLOW_NO_THREAD && old < g->nlive) {
		forget_pending(g, &g->live[old]);
		flow_graph_end_unit(g, old, e->time_ns);
		g->live[thread].last = g->live[old].last;
	}
	if (g->threads.thread[thread].before != FLOW_NO_THREAD)
		flow_graph_end_unit(g, g->threads.thread[thread].before, e->time_ns);
	flow_graph_begin_unit(g, thread, e->time_ns);
}

/* The thread goes on, with another unit. */
static void split(struct flow_graph *g, uint32_t thread, const struct flow_event *e)
{
	flow_graph_end_unit(g, thread, e->time_ns);
	flow_graph_begin_unit(g, thread, e->time_ns);
}

/* The first one that a unit takes is what it began for, as are more reads of the same object. */
static void take_begin(struct flow_graph *g, uint32_t thread, const struct flow_event *e)
{
	struct live *l = &g->live[thread];
	const bool goes_on = flow_call_receives(e->call) && e->object && l->begun_object == e->object;

	if (l->begun && !goes_on)
		split(g, thread, e);
	l->begun = true;
	l->begun_object = e->object;
}

static void take_end(struct flow_graph *g, uint32_t thread, const struct flow_event *e)
{
	split(g, thread, e);
	g->live[thread].begun = true;
	g->live[thread].begun_object = 0;
}

static void take_return(struct flow_graph *g, const struct flow_event *e)
{
	enum flow_return how = FLOW_RETURN_PLAIN;
	struct live *l;
	uint32_t thread;

	if (flow_graph_node_now(g, e->tid, e->time_ns) == FLOW_NONE)
		return;
	thread = flow_graph_thread(g, e->tid, e->time_ns);
	if (e->result > 0)
		how = flow_graph_return(g, thread, e);
	flow_graph_settle(g, &g->live[thread], e);
	if (how == FLOW_RETURN_BEGINS)
		take_begin(g, thread, e);
	flow_graph_stream_call(g, thread, e);
	flow_graph_counter_call(g, thread, e);
	if (e->result > 0)
		flow_graph_join(g, thread, e);
	if (how == FLOW_RETURN_ENDS)
		take_end(g, thread, e);
	l = &g->live[thread];
	l->returned_ns = e->time_ns;
	l->early = FLOW_NONE;
	l->soft_target = FLOW_NONE;
}

static void take_signal(struct flow_graph *g, const struct flow_event *e)
{
	struct cpu *cpu = flow_graph_cpu(g, e->cpu);

	if (!cpu)
		return;
	cpu->signal = (uint8_t)e->op;
	cpu->signal_target = e->other;
	flow_graph_signal(g, e);
}

static void take_signal_taken(struct flow_graph *g, const struct flow_event *e)
{
	if (flow_graph_node_now(g, e->tid, e->time_ns) != FLOW_NONE)
		flow_graph_signal_taken(g, flow_graph_thread(g, e->tid, e->time_ns), e->op, e->time_ns);
}

/* An interrupt's doings on this CPU are over when a thread goes on there. */
static void end_of_interrupt(struct flow_graph *g, const struct flow_event *e)
{
	struct cpu *cpu = flow_graph_cpu(g, e->cpu);

	if (cpu)
		*cpu = (struct cpu){ .queued = FLOW_NONE };
}

static void take_lost(struct flow_graph *g, const struct flow_event *e)
{
	g->lost_ns = e->time_ns;
	end_of_interrupt(g, e);
}

static void feed(struct flow_graph *g, const struct flow_event *e)
{
	switch (e->id) {
	case FLOW_WAKING:
		flow_graph_waking(g, e);
		return;
	case FLOW_SIGNAL:
		take_signal(g, e);
		return;
	case FLOW_TIMER_SET:
	case FLOW_TIMER_FIRED:
	case FLOW_WORK_QUEUED:
	case FLOW_BLOCK_ISSUED:
	case FLOW_BLOCK_DONE:
	case FLOW_URING_SUBMIT:
	case FLOW_URING_DONE:
		flow_graph_cause(g, e);
		return;
	case FLOW_SOCKET:
		flow_graph_socket(g, e);
		return;
	case FLOW_LOST:
		take_lost(g, e);
		return;
	case FLOW_NAME:
	case FLOW_STACK:
		return;
	default:
		end_of_interrupt(g, e);
	}
	switch (e->id) {
	case FLOW_SWITCH:
	case FLOW_WAIT_CALL:
	case FLOW_WAIT_ON:
	case FLOW_WAIT_FUTEX:
		take_switch(g, e);
		break;
	case FLOW_FORK:
		take_fork(g, e);
		break;
	case FLOW_EXEC:
		take_exec(g, e);
		break;
	case FLOW_EXIT:
		take_exit(g, e);
		break;
	case FLOW_WORK_BEGAN:
	case FLOW_WORK_ENDED:
		flow_graph_cause(g, e);
		break;
	case FLOW_SIGNAL_TAKEN:
		take_signal_taken(g, e);
		break;
	case FLOW_CALL:
	case FLOW_CALL_ON:
	case FLOW_CALL_FUTEX:
		take_return(g, e);
		break;
	default:
		break;
	}
}

struct wc_error *flow_graph_feed(struct flow_graph *g, const struct flow_event *e)
{
	g->last_ns = e->time_ns;
	g->starved |= !flow_threads_feed(&g->threads, e);
	grow_live(g);
	if (g->starved)
		return &wc_enomem;
	if (e->cpu == FLOW_CPU_NAMES) {
		if (e->id == FLOW_SOCKET)
			flow_graph_socket(g, e);
		return g->starved ? &wc_enomem : NULL;
	}
	if (e->tid == -1)
		take_lost(g, e);
	feed(g, e);
	return g->starved ? &wc_enomem : NULL;
}

/* The exit of a thread whose number was used again may be missing; one that was seen may be early. */
static uint64_t last_moment(const struct flow_graph *g, size_t thread)
{
	const uint64_t end = g->threads.thread[thread].end_ns;
	const uint32_t node = g->live[thread].node;

	return node == FLOW_NONE || end < g->node[node].begin_ns || end > g->last_ns ? g->last_ns : end;
}

void flow_graph_end(struct flow_graph *g)
{
	for (size_t i = 0; i < g->nlive; i++) {
		forget_pending(g, &g->live[i]);
		flow_graph_leave_open(g, (uint32_t)i);
		flow_graph_end_unit(g, (uint32_t)i, last_moment(g, i));
	}
	flow_graph_drop_false(g);
}

enum flow_state flow_graph_state(const struct flow_graph *g, uint32_t thread)
{
	const struct live *l = &g->live[thread];

	if (l->state != LIVE_WAITS)
		return l->state == LIVE_RUNS ? FLOW_STATE_RUNS : FLOW_STATE_UNSEEN;
	return l->wait_class == FLOW_WAIT_IDLE ? FLOW_STATE_IDLE : FLOW_STATE_WAITS;
}

struct flow_graph *flow_graph_new_by(struct flow_rules *rules)
{
	struct flow_graph *g = calloc(1, sizeof(*g));

	if (!g) {
		flow_rules_free(rules);
		return NULL;
	}
	g->free_chunk = FLOW_NONE;
	g->rules = rules;
	return g;
}

struct flow_graph *flow_graph_new(void)
{
	struct flow_rules *rules;
	struct wc_error *err = flow_rules_new(NULL, 0, &rules);

	if (!err)
		return flow_graph_new_by(rules);
	wc_error_free(err);
	return NULL;
}

void flow_graph_free(struct flow_graph *g)
{
	if (!g)
		return;
	flow_threads_deinit(&g->threads);
	flow_rules_free(g->rules);
	free(g->live);
	free(g->named);
	free(g->node);
	free(g->edge);
	free(g->cpu);
	free(g->origin);
	free(g->given);
	free(g->stream);
	free(g->chunk);
	free(g->variable);
	map64_deinit(&g->index);
	free(g);
}

void flow_graph_freep(struct flow_graph **g)
{
	flow_graph_free(*g);
}

const struct flow_node *flow_graph_nodes(const struct flow_graph *g, size_t *n)
{
	*n = g->nnodes;
	return g->node;
}

const struct flow_edge *flow_graph_edges(const struct flow_graph *g, size_t *n)
{
	*n = g->nedges;
	return g->edge;
}

const struct flow_threads *flow_graph_threads(const struct flow_graph *g)
{
	return &g->threads;
}

const char *flow_edge_kind_name(enum flow_edge_kind kind)
{
	return flow_edge_kind_names[kind];
}
