/*
 * seen - beside the graph of causes: how each thread waits or goes on when the events end, what it did last, and which threads have used
 * which pipe, socket or file. An event goes to the graph first, then here: threads have the graph's numbers.
 */
#ifndef WATCHCTL_FLOW_BLAME_SEEN_H
#define WATCHCTL_FLOW_BLAME_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/flow/graph/flow_graph.h"
#include "watchctl/trace/flow/flow_reader.h"

/* A wait, or a call that has returned (then @why means nothing). Fields as of flow_event. */
struct seen_call {
	uint64_t ns; /* 0: none */
	uint64_t address;
	int64_t result;
	uint32_t op, object, word[3];
	uint16_t call;
	uint8_t id, why, kind;
	bool has_words;
};

struct seen_thread {
	struct seen_call wait; /* the last one, if flow_graph_state() says that it waits */
	struct seen_call last; /* that returned */
	uint64_t woken_ns;     /* since then it goes on: of its last waking, fork, or first event */
	uint64_t cpu_ns;       /* that it ran since then */
	uint64_t on_cpu_ns;    /* since when it runs; 0: it does not */
	int32_t status;	       /* of its exit, as of waitpid(2) */
	bool exited;
	uint32_t creator;	       /* or FLOW_NO_THREAD */
	uint32_t stopper;	       /* who sent it the last signal that stops, or FLOW_NO_THREAD */
	uint32_t first_use, last_node; /* or FLOW_NONE */
};

/* A thread's use of an object. Times are 0 where it never did that. */
struct seen_use {
	uint64_t made_ns, gave_ns, took_ns, waited_ns, locked_ns; /* locked: by flock(2) */
	uint32_t thread, object;
	uint32_t next_of_object, next_of_thread; /* or FLOW_NONE */
	uint8_t kind;
};

struct seen {
	struct seen_thread *thread;
	size_t n, cap;
	struct seen_use *use;
	size_t nuses, uses_cap;
	struct map64 by_thread, by_object; /* -> index of a use + 1; by_object: the newest of it */
	uint64_t lost_ns;		   /* of the last events that are missing */
	uint64_t first_ns, end_ns;	   /* of all events but names */
	bool starved;
};

/* Zero-initialised is empty. @g was fed with @e just before. wc_enomem. */
struct wc_error *seen_feed(struct seen *s, const struct flow_graph *g, const struct flow_event *e);

/* After flow_graph_end(): fills in last_node. wc_enomem. */
struct wc_error *seen_end(struct seen *s, const struct flow_graph *g);
void seen_deinit(struct seen *s);

/* First of the uses of an object, linked by next_of_object; FLOW_NONE: there is none. */
uint32_t seen_uses(const struct seen *s, int kind, uint32_t object);

#endif
