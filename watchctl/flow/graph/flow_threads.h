/*
 * flow_threads - which thread a number was at which time. Numbers are used again: an incarnation is one thread from its fork, or the
 * first time it is seen, to its exit. Fed with the system's events in the order of time.
 */
#ifndef WATCHCTL_FLOW_GRAPH_FLOW_THREADS_H
#define WATCHCTL_FLOW_GRAPH_FLOW_THREADS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/id_map.h"
#include "watchctl/trace/flow/flow_reader.h"

#define FLOW_NO_THREAD UINT32_MAX

struct flow_thread {
	uint64_t begin_ns, end_ns; /* end: UINT64_MAX while it lives */
	int32_t tid, pid, parent;  /* pid and parent: 0 is not known */
	uint32_t before;	   /* the incarnation of the same number before it, or FLOW_NO_THREAD */
	uint32_t name;		   /* the last of its names, or FLOW_NO_THREAD */
	bool gone;		   /* it will not run again */
};

struct flow_thread_name {
	uint64_t time_ns;
	uint32_t before; /* the name it had before, or FLOW_NO_THREAD */
	char comm[16 + 1];
};

/* Zero-initialised is empty. */
struct flow_threads {
	struct flow_thread *thread;
	size_t n, cap;
	struct flow_thread_name *name;
	size_t nnames, names_cap;
	struct id_map last; /* tid -> number of its last incarnation + 1 */
};

/* Takes names, forks, execs, exits and deaths; other events change nothing. False: no memory. */
bool flow_threads_feed(struct flow_threads *t, const struct flow_event *e);

/* The incarnation of @tid at the moment of the last event, seen for the first time at @time_ns if it is new. FLOW_NO_THREAD: no memory. */
uint32_t flow_threads_now(struct flow_threads *t, int32_t tid, uint64_t time_ns);

/* The one that @tid was at @time_ns: FLOW_NO_THREAD if there was none. */
uint32_t flow_threads_at(const struct flow_threads *t, int32_t tid, uint64_t time_ns);

/* Which of the names incarnation @i had at @time_ns, or its first one when that is later: the number of it in @t, FLOW_NO_THREAD if none is known. */
uint32_t flow_threads_name(const struct flow_threads *t, uint32_t i, uint64_t time_ns);

/* The name of incarnation @i at @time_ns, or its first one when that is later; "" if none is known. Valid until the next feed. */
const char *flow_threads_comm(const struct flow_threads *t, uint32_t i, uint64_t time_ns);

/*
 * Is incarnation @i meant by @who, at @time_ns? "app/1234" is a name and the number of a thread or of its process, "app" all
 * threads of that name, "1234" the thread or all of the process.
 */
bool flow_threads_match(const struct flow_threads *t, uint32_t i, const char *who, uint64_t time_ns);

void flow_threads_deinit(struct flow_threads *t);

#endif
