/*
 * flow_counters - who was let go on by what another had left there before it came: the expiry of a timerfd, the count of an eventfd, a
 * signal that was pending. No waking shows these: the taker did not wait.
 */
#include <stddef.h>

#include <sys/syscall.h>

#include "watchctl/flow/graph/flow_graph_impl.h"
#include "watchctl/flow/graph/flow_waits.h"

#define SIGNALS 64u
#define FIRST_QUEUED 32 /* below, a signal that is pending already is not sent again: there is one at most */

/* The unit has begun by this very thing, which was done after @since_ns: that edge is there. */
static bool has_begun_by(const struct flow_graph *g, const struct flow_edge *edge, uint64_t since_ns)
{
	const uint32_t i = g->node[edge->to].begin_edge;
	const struct flow_edge *b = i == FLOW_NONE ? NULL : &g->edge[i];

	return b && b->kind == edge->kind && b->from == edge->from && b->signal == edge->signal &&
	       b->from_ns > since_ns;
}

static void add_edge(struct flow_graph *g, const struct flow_edge *edge, uint64_t since_ns)
{
	if (edge->from == FLOW_NONE || edge->from == edge->to || edge->from_ns > edge->to_ns ||
	    has_begun_by(g, edge, since_ns))
		return;
	flow_graph_begins(g, flow_graph_add_edge(g, edge));
}

/* Timers */

static void timerfd_read(struct flow_graph *g, uint32_t node, const struct flow_event *e)
{
	struct flow_edge edge = { .to_ns = e->time_ns,
				  .to = node,
				  .kind = FLOW_EDGE_TIMER,
				  .object = e->object,
				  .object_kind = e->kind };
	struct origin o;

	if (!flow_graph_get_origin(g, flow_graph_key(KEY_TIMERFD, e->object), &o))
		return;
	edge.from = o.node;
	edge.from_ns = o.ns;
	add_edge(g, &edge, o.since_ns);
}

static void timerfd_set(struct flow_graph *g, const struct live *l, const struct flow_event *e)
{
	const uint32_t i =
		flow_graph_put_origin(g, flow_graph_key(KEY_TIMERFD, e->object), l->node, e->time_ns);

	if (i != FLOW_NONE)
		g->origin[i].since_ns = l->returned_ns;
}

static void timerfd_call(struct flow_graph *g, const struct live *l, const struct flow_event *e)
{
	if (e->call == SYS_timerfd_settime && !e->result)
		timerfd_set(g, l, e);
	else if (flow_call_receives(e->call) && e->result > 0)
		timerfd_read(g, l->node, e);
}

/* Eventfds: a read takes all that was written. */

static void take_write(struct flow_graph *g, uint32_t stream, const struct live *l,
		       const struct flow_event *e)
{
	const struct chunk c = { .ns = e->time_ns,
				 .since_ns = l->returned_ns,
				 .node = l->node,
				 .next = FLOW_NONE,
				 .call = e->call };

	/* A read that returned while it was in its call may have taken it. */
	if (c.since_ns >= g->stream[stream].synced_ns)
		flow_graph_leave(g, stream, &c);
}

static void take_read(struct flow_graph *g, uint32_t stream, uint32_t node, const struct flow_event *e)
{
	struct chunk c;

	while (flow_graph_take(g, stream, &c)) {
		const struct flow_edge edge = { .from_ns = c.ns,
						.to_ns = e->time_ns,
						.from = c.node,
						.to = node,
						.kind = FLOW_EDGE_MESSAGE,
						.has_call = true,
						.call = c.call,
						.object = e->object,
						.object_kind = e->kind };

		add_edge(g, &edge, c.since_ns);
	}
	g->stream[stream].synced_ns = e->time_ns;
}

static void eventfd_call(struct flow_graph *g, const struct live *l, const struct flow_event *e)
{
	const uint32_t stream = flow_graph_stream(g, e->kind, e->object);

	if (stream == FLOW_NONE || e->result <= 0)
		return;
	if (flow_call_sends(e->call))
		take_write(g, stream, l, e);
	else if (flow_call_receives(e->call))
		take_read(g, stream, l->node, e);
}

void flow_graph_counter_call(struct flow_graph *g, uint32_t thread, const struct flow_event *e)
{
	const struct live *l = &g->live[thread];

	if (l->node == FLOW_NONE)
		return;
	if (e->id == FLOW_CALL && flow_call_takes_signal(e->call) && e->result > 0)
		flow_graph_signal_taken(g, thread, (uint32_t)e->result, e->time_ns);
	if (e->id == FLOW_CALL_ON && e->kind == FLOW_KIND_TIMERFD)
		timerfd_call(g, l, e);
	if (e->id == FLOW_CALL_ON && e->kind == FLOW_KIND_EVENTFD)
		eventfd_call(g, l, e);
}

/* Signals */

static uint32_t signal_object(int32_t tid, uint32_t signal)
{
	return (uint32_t)tid * SIGNALS + (signal - 1);
}

/* By a thread; or by an interrupt, which is no waker: only the timer that it was about is. */
void flow_graph_signal(struct flow_graph *g, const struct flow_event *e)
{
	const uint32_t sender =
		e->why == FLOW_BY_THREAD ? flow_graph_node_now(g, e->tid, e->time_ns) : FLOW_NONE;
	const struct chunk c = { .ns = e->time_ns, .node = sender, .next = FLOW_NONE };
	uint32_t thread, stream;

	if (e->other <= 0 || !e->op || e->op > SIGNALS)
		return;
	thread = flow_graph_thread(g, e->other, e->time_ns);
	if (thread == FLOW_NONE || (e->op >= FIRST_QUEUED && !g->live[thread].signals_known))
		return;
	stream = flow_graph_stream(g, STREAM_SIGNAL, signal_object(e->other, e->op));
	if (stream != FLOW_NONE)
		flow_graph_leave(g, stream, &c);
}

/* To it, or to its process: to that of whom it was sent, the first thread. */
static bool take_pending(struct flow_graph *g, uint32_t thread, uint32_t signal, struct chunk *ret)
{
	const struct flow_thread t = g->threads.thread[thread];
	uint32_t stream =
		flow_graph_find(g, flow_graph_key(KEY_STREAM + STREAM_SIGNAL, signal_object(t.tid, signal)));

	if (stream != FLOW_NONE && flow_graph_take(g, stream, ret))
		return true;
	if (t.pid <= 0 || t.pid == t.tid)
		return false;
	stream = flow_graph_find(g, flow_graph_key(KEY_STREAM + STREAM_SIGNAL, signal_object(t.pid, signal)));
	return stream != FLOW_NONE && flow_graph_take(g, stream, ret);
}

void flow_graph_signal_taken(struct flow_graph *g, uint32_t thread, uint32_t signal, uint64_t ns)
{
	struct flow_edge edge = {
		.to_ns = ns, .to = g->live[thread].node, .kind = FLOW_EDGE_WAKEUP, .signal = (uint8_t)signal
	};
	struct chunk c;

	if (!signal || signal > SIGNALS || edge.to == FLOW_NONE || !take_pending(g, thread, signal, &c))
		return;
	edge.from = c.node;
	edge.from_ns = c.ns;
	add_edge(g, &edge, c.ns - 1);
}

/* A thread that sleeps until a signal comes has none pending. */
void flow_graph_signals_wait(struct flow_graph *g, uint32_t thread, const struct flow_event *e)
{
	if (e->id == FLOW_WAIT_CALL && flow_call_takes_signal(e->call))
		g->live[thread].signals_known = true;
}
