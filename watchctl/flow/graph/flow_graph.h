/*
 * flow_graph - which thread's doing led to which other's, over the system's events. Fed event by event in the order of time.
 *
 * A node is a unit of work of a thread: from the waking (the fork, the first time it is seen) that ended an idle wait, to the begin of
 * the next idle wait, or the exit; or where a call that begins or ends one returns. Which waits and calls these are is said by rules. An edge leads from a moment of one node to a moment of another. Waits inside a unit are edges, too:
 * of kind wait_for, from_ns and to_ns are their begin and end, and `from` who was waited for. Weak edges are not stored: they lead
 * from flow_node.before. No edge is guessed: what the events do not show has none, and none leads across lost events.
 */
#ifndef WATCHCTL_FLOW_GRAPH_FLOW_GRAPH_H
#define WATCHCTL_FLOW_GRAPH_FLOW_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/graph/flow_threads.h"
#include "watchctl/flow/rules/flow_edge_kind.h"
#include "watchctl/flow/rules/flow_rules.h"
#include "watchctl/trace/flow/flow_reader.h"

#define FLOW_NONE UINT32_MAX

enum flow_edge_flags {
	FLOW_EDGE_BEGINS = 1,	/* it ended the idle wait, or is the first that the unit received */
	FLOW_EDGE_OWN = 2,	/* from the same thread: its own timeout, its own I/O */
	FLOW_EDGE_FAULT = 4,	/* a wait in a page fault */
	FLOW_EDGE_OWNER = 8,	/* of a wait for a lock: `from` had it; else it only ended the wait */
	FLOW_EDGE_BLOCKED = 16, /* a wait that no signal ends (D) */
	FLOW_EDGE_OPEN = 32,	/* a wait that goes on when the events end, which is its to_ns */
};

struct flow_edge {
	uint64_t from_ns, to_ns;
	union {
		uint64_t address; /* of a futex */
		uint64_t bytes;	  /* of a message that was received; 0: not known */
	};
	uint32_t from, to; /* nodes; from: FLOW_NONE if not known, of a wait only */
	uint32_t next_in;  /* the one before it into `to`, or FLOW_NONE */
	uint32_t object;   /* also: timer, work, request */
	uint16_t call;	   /* if has_call: 0 is read(2) */
	uint8_t kind;	   /* enum flow_edge_kind */
	uint8_t object_kind;
	uint8_t flags, signal;
	bool has_call;
};

/* `call` with has_call: the idle wait that ended as this unit began. */
struct flow_node {
	uint64_t begin_ns,
		end_ns;	     /* end: UINT64_MAX while it goes on, of the last ones until flow_graph_end() */
	uint32_t thread;     /* incarnation, see flow_threads.h */
	uint32_t before;     /* the same thread's, or FLOW_NONE: weak */
	uint32_t last_in;    /* the last edge into it, or FLOW_NONE */
	uint32_t begin_edge; /* the edge that began it, or FLOW_NONE */
	uint32_t object;
	uint16_t call;
	uint8_t object_kind;
	bool has_call;
};

enum flow_state {
	FLOW_STATE_UNSEEN,
	FLOW_STATE_RUNS,  /* or could */
	FLOW_STATE_IDLE,  /* waits for more to do */
	FLOW_STATE_WAITS, /* in a unit */
};

struct flow_graph;

/* By the rules that always hold. NULL: no memory. */
struct flow_graph *flow_graph_new(void);

/* By @rules, which it takes. NULL: no memory, and @rules are freed. */
struct flow_graph *flow_graph_new_by(struct flow_rules *rules);
void flow_graph_free(struct flow_graph *g); /* accepts NULL */
void flow_graph_freep(struct flow_graph **g);

/* The next event in the order of time. wc_enomem. */
struct wc_error *flow_graph_feed(struct flow_graph *g, const struct flow_event *e);

/* Of a watched variable, which is a number from 0 on. */
struct flow_access {
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	int32_t tid;
	uint32_t variable;
	bool reads, writes;
};

/*
 * In the order of time, the events' and theirs. A thread that reads is brought on by whoever has written last, in an edge of kind data;
 * its object is the variable. wc_enomem.
 */
struct wc_error *flow_graph_access(struct flow_graph *g, const struct flow_access *a);

/* There may have been accesses that are not told: of who has written last nothing is known. */
void flow_graph_accesses_lost(struct flow_graph *g);

/* After the last event: closes the units that go on, adds the waits that do (FLOW_EDGE_OPEN), and drops the edges that the rules call none. */
void flow_graph_end(struct flow_graph *g);

/* Of a thread at the last event, also behind flow_graph_end(). */
enum flow_state flow_graph_state(const struct flow_graph *g, uint32_t thread);

/* The number of the other end of a socket of that kind, as far as events tell; 0: not known. */
uint32_t flow_graph_peer(const struct flow_graph *g, int kind, uint32_t object);

/* Valid until the next feed. */
const struct flow_node *flow_graph_nodes(const struct flow_graph *g, size_t *n);
const struct flow_edge *flow_graph_edges(const struct flow_graph *g, size_t *n);
const struct flow_threads *flow_graph_threads(const struct flow_graph *g);

/* "wakeup", "wait_for" ... */
const char *flow_edge_kind_name(enum flow_edge_kind kind);

#endif
