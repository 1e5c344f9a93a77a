/*
 * flow_streams - who read what another wrote. What goes into a pipe or a connection comes out in the same order: byte N that is read is
 * byte N that was written. Calls are recorded when they return, so a read may come before its write: both wait in queues for
 * the other. Where the beginning was not recorded, positions are known from the moment on at which the stream is known to be
 * empty: a reader sleeps in a read, or gets EAGAIN. Until then there are no edges.
 */
#include <errno.h>
#include <stddef.h>

#include <sys/syscall.h>

#include "watchctl/base/vec.h"
#include "watchctl/flow/graph/flow_graph_impl.h"
#include "watchctl/flow/graph/flow_waits.h"

#define QUEUE_MOST 4096u  /* calls that wait; more than a stream's buffer takes */
#define QUEUE_UNKNOWN 64u /* of a connection whose other end is not known, and may be another machine's */

static uint64_t stream_key(int kind, uint32_t object)
{
	return flow_graph_key((enum key_type)(KEY_STREAM + kind), object);
}

uint32_t flow_graph_stream(struct flow_graph *g, int kind, uint32_t object)
{
	struct stream fresh = { .writes = { FLOW_NONE, FLOW_NONE, 0 },
				.reads = { FLOW_NONE, FLOW_NONE, 0 },
				.object = object,
				.peer = FLOW_NONE,
				.kind = (uint8_t)kind };
	const uint64_t key = stream_key(kind, object);
	const uint32_t i = flow_graph_find(g, key);

	if (i != FLOW_NONE)
		return i;
	if (kind == FLOW_KIND_PIPE || kind == FLOW_KIND_SEMAPHORE)
		fresh.peer = (uint32_t)g->nstreams;
	if (!vec_push(g->stream, g->nstreams, g->streams_cap, fresh)) {
		g->starved = true;
		return FLOW_NONE;
	}
	flow_graph_keep(g, key, (uint32_t)g->nstreams - 1);
	return (uint32_t)g->nstreams - 1;
}

static void pop(struct flow_graph *g, struct chunk_queue *q)
{
	const uint32_t i = q->first;

	q->first = g->chunk[i].next;
	if (q->first == FLOW_NONE)
		q->last = FLOW_NONE;
	q->n--;
	g->chunk[i].next = g->free_chunk;
	g->free_chunk = i;
}

static void push(struct flow_graph *g, struct chunk_queue *q, const struct chunk *c)
{
	uint32_t i = g->free_chunk;

	if (i != FLOW_NONE) {
		g->free_chunk = g->chunk[i].next;
		g->chunk[i] = *c;
	} else if (vec_push(g->chunk, g->nchunks, g->chunks_cap, *c)) {
		i = (uint32_t)g->nchunks - 1;
	} else {
		g->starved = true;
		return;
	}
	if (q->last == FLOW_NONE)
		q->first = i;
	else
		g->chunk[q->last].next = i;
	q->last = i;
	q->n++;
}

void flow_graph_leave(struct flow_graph *g, uint32_t stream, const struct chunk *c)
{
	struct chunk_queue *q = &g->stream[stream].writes;

	if (q->n >= QUEUE_MOST)
		pop(g, q);
	push(g, q, c);
}

bool flow_graph_take(struct flow_graph *g, uint32_t stream, struct chunk *ret)
{
	struct chunk_queue *q = &g->stream[stream].writes;

	while (q->n) {
		*ret = g->chunk[q->first];
		pop(g, q);
		if (ret->ns > g->lost_ns)
			return true;
	}
	return false;
}

static void forget_positions(struct flow_graph *g, struct stream *s)
{
	while (s->writes.n)
		pop(g, &s->writes);
	while (s->reads.n)
		pop(g, &s->reads);
	s->synced_ns = s->written = s->read = 0;
	s->from_start = false;
}

static bool is_synced(struct flow_graph *g, struct stream *s)
{
	if (s->synced_ns && s->synced_ns <= g->lost_ns)
		forget_positions(g, s);
	return s->synced_ns != 0;
}

static void sync_stream(struct flow_graph *g, struct stream *s, uint64_t ns)
{
	forget_positions(g, s);
	s->synced_ns = ns;
}

/* The waking that this write did has an edge already. */
static bool has_woken(struct flow_graph *g, const struct chunk *w, uint32_t to, uint64_t bytes)
{
	const uint32_t i = g->node[to].begin_edge;
	struct flow_edge *edge = i == FLOW_NONE ? NULL : &g->edge[i];

	if (!edge || edge->kind != FLOW_EDGE_MESSAGE || edge->from != w->node ||
	    edge->from_ns <= w->since_ns || edge->from_ns > w->ns)
		return false;
	edge->bytes += bytes;
	return true;
}

static void add_message(struct flow_graph *g, const struct stream *s, const struct chunk *w,
			const struct chunk *r, uint64_t bytes)
{
	const struct flow_edge edge = {
		.from_ns = w->ns < r->ns ? w->ns : r->ns,
		.to_ns = r->ns,
		.from = w->node,
		.to = r->node,
		.kind = FLOW_EDGE_MESSAGE,
		.has_call = true,
		.call = w->call,
		.object = s->object,
		.object_kind = s->kind,
		.bytes = bytes,
	};

	if (w->node == r->node || has_woken(g, w, r->node, bytes))
		return;
	flow_graph_begins(g, flow_graph_add_edge(g, &edge));
}

static void match(struct flow_graph *g, struct stream *s)
{
	while (s->writes.n && s->reads.n) {
		const struct chunk w = g->chunk[s->writes.first], r = g->chunk[s->reads.first];
		const uint64_t begin = w.begin > r.begin ? w.begin : r.begin;
		const uint64_t end = w.end < r.end ? w.end : r.end;

		if (begin < end)
			add_message(g, s, &w, &r, end - begin);
		if (w.end <= end)
			pop(g, &s->writes);
		if (r.end <= end)
			pop(g, &s->reads);
	}
}

static void take_bytes(struct flow_graph *g, struct stream *s, struct chunk_queue *q, uint64_t *position,
		       struct chunk *c, uint64_t bytes)
{
	s->fresh = false;
	s->used = true;
	if (!is_synced(g, s))
		return;
	if (q->n >= (s->peer == FLOW_NONE ? QUEUE_UNKNOWN : QUEUE_MOST)) {
		forget_positions(g, s);
		return;
	}
	c->begin = *position;
	c->end = *position += bytes;
	push(g, q, c);
	match(g, s);
}

/* Their results count messages, not bytes. */
static bool counts_messages(int call)
{
	return call == SYS_sendmmsg || call == SYS_recvmmsg;
}

/* The softirq on top of this send woke a thread, which has read from the other end, or may do so. */
static void confirm_sender(struct flow_graph *g, const struct live *l, const struct stream *to)
{
	struct live *woken;

	if (l->soft_target == FLOW_NONE || l->soft_ns <= g->lost_ns || l->node == FLOW_NONE)
		return;
	woken = &g->live[l->soft_target];
	if (woken->node == FLOW_NONE || woken->node != l->soft_node)
		return;
	woken->sender = l->node;
	woken->sender_ns = l->soft_ns;
	woken->sender_object = to->object;
}

static void add_sender(struct flow_graph *g, struct live *l, uint64_t ns)
{
	struct flow_edge edge = {
		.from_ns = l->sender_ns,
		.to_ns = l->sender_ns,
		.from = l->sender,
		.to = l->node,
		.kind = FLOW_EDGE_MESSAGE,
		.object = l->sender_object,
		.object_kind = FLOW_KIND_INET,
	};
	const bool matches = l->sender != FLOW_NONE && l->has_read && l->first_read == l->sender_object;

	if (!matches || l->sender_ns <= g->lost_ns || l->node == FLOW_NONE || l->sender == l->node)
		return;
	l->sender = FLOW_NONE;
	if (g->node[l->node].begin_edge == FLOW_NONE && edge.to_ns <= ns)
		flow_graph_begins(g, flow_graph_add_edge(g, &edge));
}

static void take_write(struct flow_graph *g, uint32_t thread, const struct flow_event *e, uint32_t i,
		       struct chunk *c)
{
	struct live *l = &g->live[thread];
	struct stream *s = &g->stream[i];

	if (counts_messages(e->call))
		forget_positions(g, s);
	else
		take_bytes(g, s, &s->writes, &s->written, c, (uint64_t)e->result);
	if (s->peer == FLOW_NONE || e->kind != FLOW_KIND_INET)
		return;
	confirm_sender(g, l, &g->stream[s->peer]);
	if (l->soft_target != FLOW_NONE)
		add_sender(g, &g->live[l->soft_target], e->time_ns);
}

static void take_read(struct flow_graph *g, uint32_t thread, const struct flow_event *e, uint32_t i,
		      struct chunk *c)
{
	struct live *l = &g->live[thread];
	const uint32_t peer = g->stream[i].peer;
	struct stream *s = peer == FLOW_NONE ? NULL : &g->stream[peer];

	g->stream[i].fresh = false;
	g->stream[i].used = true;
	if (s && counts_messages(e->call))
		forget_positions(g, s);
	else if (s)
		take_bytes(g, s, &s->reads, &s->read, c, (uint64_t)e->result);
	if (!l->has_read) {
		l->has_read = true;
		l->first_read = e->object;
	}
	add_sender(g, l, e->time_ns);
}

/* Known to be empty, and no write is half done. */
static void found_empty(struct flow_graph *g, const struct live *l, const struct flow_event *e)
{
	const uint32_t i = flow_graph_stream(g, e->kind, e->object);
	const uint32_t peer = i == FLOW_NONE ? FLOW_NONE : g->stream[i].peer;
	struct stream *s = peer == FLOW_NONE ? NULL : &g->stream[peer];

	if (!s || s->blocked)
		return;
	if (!is_synced(g, s))
		sync_stream(g, s, e->time_ns);
	else if (s->writes.n && e->kind != FLOW_KIND_INET && g->chunk[s->writes.first].ns <= l->returned_ns)
		forget_positions(g, s); /* what was there before the call went where nothing was recorded */
}

static void make_fresh(struct flow_graph *g, uint32_t i, uint64_t ns)
{
	struct stream *s = &g->stream[i];

	/* A second connect() only asks how the first one went. */
	if (s->fresh)
		return;
	s->fresh = true;
	s->used = false;
	sync_stream(g, s, ns);
	s->from_start = true;
	if (s->peer == FLOW_NONE)
		return;
	if (g->stream[s->peer].used) {
		forget_positions(g, s);
		return;
	}
	sync_stream(g, &g->stream[s->peer], ns);
}

void flow_graph_stream_unblock(struct flow_graph *g, struct live *l)
{
	if (l->blocked != FLOW_NONE && g->stream[l->blocked].blocked)
		g->stream[l->blocked].blocked--;
	l->blocked = FLOW_NONE;
}

void flow_graph_stream_call(struct flow_graph *g, uint32_t thread, const struct flow_event *e)
{
	struct live *l = &g->live[thread];
	struct chunk c = { .ns = e->time_ns,
			   .since_ns = l->returned_ns,
			   .node = l->node,
			   .next = FLOW_NONE,
			   .call = e->call };
	uint32_t i;

	flow_graph_stream_unblock(g, l);
	if (e->id != FLOW_CALL_ON || !flow_kind_is_stream(e->kind))
		return;
	i = flow_graph_stream(g, e->kind, e->object);
	if (i == FLOW_NONE)
		return;
	if (e->call == SYS_connect && (e->result == 0 || e->result == -EINPROGRESS))
		make_fresh(g, i, e->time_ns);
	else if (flow_call_receives(e->call) && e->result == -EAGAIN)
		found_empty(g, l, e);
	else if (flow_call_receives(e->call) && e->result > 0)
		take_read(g, thread, e, i, &c);
	else if (flow_call_sends(e->call) && e->result > 0)
		take_write(g, thread, e, i, &c);
}

void flow_graph_stream_wait(struct flow_graph *g, uint32_t thread, const struct flow_event *e)
{
	struct live *l = &g->live[thread];

	if (e->id != FLOW_WAIT_ON || !flow_kind_is_stream(e->kind))
		return;
	if (flow_call_receives(e->call)) {
		found_empty(g, l, e);
	} else if (flow_call_sends(e->call) && l->blocked == FLOW_NONE) {
		l->blocked = flow_graph_stream(g, e->kind, e->object);
		if (l->blocked != FLOW_NONE)
			g->stream[l->blocked].blocked++;
	}
}

static void pair(struct flow_graph *g, uint32_t a, uint32_t b, uint64_t ns)
{
	struct stream *s = &g->stream[a], *t = &g->stream[b];

	if (s->peer == b && t->peer == a)
		return;
	s->peer = b;
	t->peer = a;
	if (is_synced(g, s) && s->from_start && !t->used) {
		sync_stream(g, t, ns);
	} else if (is_synced(g, t) && t->from_start && !s->used) {
		sync_stream(g, s, ns);
	} else {
		forget_positions(g, s);
		forget_positions(g, t);
	}
}

/* Nothing is in it: what comes out from now on was put in from now on. */
static void is_new(struct flow_graph *g, uint32_t i, uint64_t ns)
{
	struct stream *s = &g->stream[i];

	sync_stream(g, s, ns);
	if (s->kind != FLOW_KIND_UNIX)
		return;
	s->fresh = true;
	s->used = false;
}

struct side {
	uint32_t port, address;
};

/* Of a connection, as its side @a sees it. */
static uint64_t ends_key(struct side a, struct side b)
{
	const uint64_t x = (uint64_t)a.port << 32 | a.address, y = (uint64_t)b.port << 32 | b.address;
	const uint64_t mixed = x * 0x9e3779b97f4a7c15u;

	/* The highest bit is one that keys of other types do not have. */
	return ((mixed ^ mixed >> 32) + y) * 0xbf58476d1ce4e5b9u | 1ull << 63;
}

void flow_graph_socket(struct flow_graph *g, const struct flow_event *e)
{
	const uint32_t own = e->word[0] & 0xffff, other = e->word[0] >> 16;
	const struct side here = { own, e->word[1] };
	const struct side there = { other, e->word[2] };
	uint32_t i, peer = FLOW_NONE;

	if (!flow_kind_is_stream(e->kind))
		return;
	i = flow_graph_stream(g, e->kind, e->object);
	if (i != FLOW_NONE && e->why)
		is_new(g, i, e->time_ns);
	if (e->kind == FLOW_KIND_UNIX && e->word[0])
		peer = flow_graph_stream(g, e->kind, e->word[0]);
	if (e->kind == FLOW_KIND_INET && other) {
		if (i != FLOW_NONE)
			flow_graph_keep(g, ends_key(here, there), i);
		peer = flow_graph_find(g, ends_key(there, here));
	}
	if (i != FLOW_NONE && peer != FLOW_NONE && i != peer)
		pair(g, i, peer, e->time_ns);
}

uint32_t flow_graph_peer(const struct flow_graph *g, int kind, uint32_t object)
{
	const uint32_t i = flow_graph_find(g, stream_key(kind, object));
	const uint32_t peer = i == FLOW_NONE ? FLOW_NONE : g->stream[i].peer;

	return peer == FLOW_NONE || peer == i ? 0 : g->stream[peer].object;
}
