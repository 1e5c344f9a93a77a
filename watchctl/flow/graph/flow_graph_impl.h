/* flow_graph_impl - what the files of flow_graph share. */
#ifndef WATCHCTL_FLOW_GRAPH_FLOW_GRAPH_IMPL_H
#define WATCHCTL_FLOW_GRAPH_FLOW_GRAPH_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/map64.h"
#include "watchctl/flow/graph/flow_graph.h"
#include "watchctl/flow/graph/flow_waits.h"
#include "watchctl/flow/rules/flow_rules.h"

enum live_state {
	LIVE_UNSEEN,
	LIVE_RUNS, /* or could */
	LIVE_WAITS,
};

/* A thread now. The arrays live and threads have the same indices. */
struct live {
	uint32_t node; /* that goes on, or FLOW_NONE */
	uint32_t last; /* that ended before, or FLOW_NONE */
	uint32_t
		pending; /* wakings by it since its last call, not yet known by which: linked by flow_edge.object */
	uint8_t state, wait_class;
	uint8_t wait_kind, wait_flags;
	uint16_t wait_call;
	bool wait_has_call, exiting, works;
	uint32_t early; /* the edge of a waking that came before its wait was told, or FLOW_NONE */
	uint32_t wait_object, owner; /* owner: the thread that has the lock, or FLOW_NO_THREAD */
	uint32_t blocked;	     /* the stream that it waits to write to, or FLOW_NONE */
	uint64_t wait_ns, wait_address, returned_ns;
	/* A softirq on top of it woke a thread; its own send may turn out to be why. */
	uint32_t soft_target, soft_node;
	uint64_t soft_ns;
	/* A send of this node probably woke this unit: if it reads from that object. */
	uint32_t sender, sender_object;
	uint64_t sender_ns;
	uint32_t first_read; /* object that the unit read from first; if has_read */
	bool has_read;
	bool signals_known; /* all that are pending were recorded */
	/* The unit has taken what it does, by a call that begins units; of that object. */
	bool begun;
	uint32_t begun_object;
};

/* A thread's profile, and the names that it was made of: see flow_threads.name. */
struct named {
	const struct flow_profile *profile;
	uint32_t name, process; /* process: name of its first thread */
	uint32_t leader;	/* that thread, or FLOW_NO_THREAD */
};

/* Why the next waking on a CPU in interrupt context happens. */
struct cause {
	uint64_t ns;
	uint32_t node, key;
	uint8_t kind; /* enum flow_edge_kind */
	bool set;
};

struct cpu {
	struct cause cause;
	uint32_t fired;	 /* the timer that is being handled, if is_fired */
	uint32_t queued; /* the origin of the work that was queued by the event just before, or FLOW_NONE */
	int32_t signal_target;
	uint8_t signal; /* 0: none just before */
	bool is_fired;
};

/* Of a timer, a work, a request: the node that set it going. */
struct origin {
	uint64_t ns, since_ns; /* since: of one that a call has set going, which began after that */
	uint32_t node;
};

/* KEY_TIMERFD: the object, of who has set it last. KEY_STREAM: and its kind; KEY_JOIN: and its number. */
enum key_type {
	KEY_TIMER,
	KEY_WORK,
	KEY_BLOCK,
	KEY_URING,
	KEY_TIMERFD,
	KEY_STREAM,
	KEY_JOIN = KEY_STREAM + 32
};

/* Kinds of streams that no descriptor leads to, behind those of enum flow_kind. */
#define STREAM_SIGNAL 16 /* `object` is signal_object() */

/* Bytes [begin, end) of a stream, written or read at @ns, by a call that began after @since_ns. */
struct chunk {
	uint64_t begin, end, ns, since_ns;
	uint32_t node, next;
	uint16_t call;
};

struct chunk_queue {
	uint32_t first, last; /* or FLOW_NONE */
	uint32_t n;
};

/* Bytes that go into a pipe or out of a socket, or units that go into a counter. */
struct stream {
	uint64_t written, read, synced_ns; /* positions are known since then; 0: not known */
	struct chunk_queue writes, reads;
	uint32_t object,
		peer; /* the stream of the other end; a pipe's own; FLOW_NONE: not known, or another machine's */
	uint32_t blocked; /* threads that wait to write */
	uint8_t kind;
	bool fresh;	 /* connected while recording, and no bytes yet */
	bool from_start; /* connected while recording: what goes in is counted from the first byte, also while the other end is not known */
	bool used;	 /* bytes went through this end, either way */
};

/* A watched one, and its last write. node: FLOW_NONE if not known. */
struct variable {
	uint64_t written_ns;
	uint32_t node;
};

struct flow_graph {
	struct flow_threads threads;
	struct flow_rules *rules;
	struct live *live;
	size_t nlive, live_cap;
	struct named *named; /* as many as live, at times fewer */
	size_t nnamed, named_cap;
	struct flow_node *node;
	size_t nnodes, nodes_cap;
	struct flow_edge *edge;
	size_t nedges, edges_cap;
	struct cpu *cpu;
	size_t ncpus, cpus_cap;
	struct origin *origin;
	size_t norigins, origins_cap;
	struct origin *given; /* by calls of rules `join` */
	size_t ngiven, given_cap;
	struct stream *stream;
	size_t nstreams, streams_cap;
	struct chunk *chunk;
	size_t nchunks, chunks_cap;
	uint32_t free_chunk;
	struct variable *variable;
	size_t nvariables, variables_cap;
	struct map64 index; /* key_type and number -> index + 1 of an origin or a stream */
	uint64_t lost_ns;   /* of the last events that are missing */
	uint64_t last_ns;
	bool starved;
};

/* flow_graph.c. Thread numbers and nodes may be FLOW_NONE where there is no memory; nothing is done then. */
uint32_t flow_graph_thread(struct flow_graph *g, int32_t tid, uint64_t ns);
uint32_t flow_graph_node_now(struct flow_graph *g, int32_t tid, uint64_t ns);
uint32_t flow_graph_begin_unit(struct flow_graph *g, uint32_t thread, uint64_t ns);
void flow_graph_end_unit(struct flow_graph *g, uint32_t thread, uint64_t ns);
struct cpu *flow_graph_cpu(struct flow_graph *g, uint32_t cpu);
uint32_t flow_graph_add_edge(struct flow_graph *g, const struct flow_edge *e);
/* The edge began the unit that it leads into, unless another one did. */
void flow_graph_begins(struct flow_graph *g, uint32_t edge);

/* flow_wakings.c */
void flow_graph_waking(struct flow_graph *g, const struct flow_event *e);
void flow_graph_end_wait(struct flow_graph *g, uint32_t thread, uint64_t ns, uint32_t by_edge);
void flow_graph_leave_open(struct flow_graph *g, uint32_t thread); /* the events end while it may wait */
void flow_graph_woken_early(struct flow_graph *g, uint32_t thread, uint64_t ns);
void flow_graph_settle(struct flow_graph *g, struct live *l, const struct flow_event *e);

/* flow_causes.c: timers, work, requests. */
void flow_graph_cause(struct flow_graph *g, const struct flow_event *e);
uint32_t flow_graph_put_origin(struct flow_graph *g, uint64_t key, uint32_t node, uint64_t ns);
/* False: not recorded, or events are missing since, by which it may be another's now. */
bool flow_graph_get_origin(const struct flow_graph *g, uint64_t key, struct origin *ret);

/* flow_streams.c */
uint32_t flow_graph_stream(struct flow_graph *g, int kind, uint32_t object); /* FLOW_NONE: no memory */
/* Without positions: what was left there, by whom, and the oldest of it again. False: nothing is, or only from before lost events. */
void flow_graph_leave(struct flow_graph *g, uint32_t stream, const struct chunk *c);
bool flow_graph_take(struct flow_graph *g, uint32_t stream, struct chunk *ret);

/* flow_counters.c: what is counted, not streamed: eventfds, timerfds, signals. */
void flow_graph_signal(struct flow_graph *g, const struct flow_event *e);
void flow_graph_counter_call(struct flow_graph *g, uint32_t thread, const struct flow_event *e);
void flow_graph_signal_taken(struct flow_graph *g, uint32_t thread, uint32_t signal, uint64_t ns);
void flow_graph_signals_wait(struct flow_graph *g, uint32_t thread, const struct flow_event *e);

void flow_graph_stream_call(struct flow_graph *g, uint32_t thread, const struct flow_event *e);
void flow_graph_stream_wait(struct flow_graph *g, uint32_t thread, const struct flow_event *e);
void flow_graph_stream_unblock(struct flow_graph *g, struct live *l);
void flow_graph_socket(struct flow_graph *g, const struct flow_event *e);

/* flow_graph_rules.c. A profile is that of the thread's names at @ns; NULL: no memory. */
uint32_t flow_graph_leader(struct flow_graph *g, uint32_t thread,
			   uint64_t ns); /* FLOW_NO_THREAD: no memory */
const struct flow_profile *flow_graph_profile(struct flow_graph *g, uint32_t thread, uint64_t ns);
enum flow_return flow_graph_return(struct flow_graph *g, uint32_t thread, const struct flow_event *e);
void flow_graph_join(struct flow_graph *g, uint32_t thread, const struct flow_event *e);
void flow_graph_drop_false(struct flow_graph *g);

static inline uint64_t flow_graph_key(enum key_type type, uint32_t number)
{
	return (uint64_t)type << 32 | number;
}

static inline uint32_t flow_graph_find(const struct flow_graph *g, uint64_t key)
{
	return (uint32_t)(uintptr_t)map64_get(&g->index, key) - 1;
}

static inline void flow_graph_keep(struct flow_graph *g, uint64_t key, uint32_t i)
{
	g->starved |= !map64_put(&g->index, key, (void *)((uintptr_t)i + 1));
}

#endif
