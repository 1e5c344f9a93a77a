/* link - for whom a thread waits when the events end, and how that is known. What the events do not show is no link. */
#ifndef WATCHCTL_FLOW_BLAME_LINK_H
#define WATCHCTL_FLOW_BLAME_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/flow/blame/seen.h"
#include "watchctl/flow/graph/flow_graph.h"

enum blame_how {
	BLAME_UNKNOWN,
	BLAME_OWNER,	 /* the lock's words name it */
	BLAME_WRITER,	 /* they look like those of a rwlock that it writes: a guess */
	BLAME_JOIN,	 /* the word is its number, which the kernel clears at its end */
	BLAME_OTHER_END, /* it has used the other end */
	BLAME_FILE_LOCK, /* it got the lock of the file last: a guess, as it may have given it back */
	BLAME_CHILD,
	BLAME_ASKED,	 /* the thread has sent it something last, and had no answer: a guess */
	BLAME_UNTIL_NOW, /* it has ended such waits before: a guess */
	BLAME_BASELINE, /* in a log of a good time it, or who comes before it, ended such waits: baseline.h */
	BLAME_HEIR,	/* it descends from who made or had the object: a guess */
};

struct blame_link {
	uint32_t to; /* or FLOW_NO_THREAD */
	uint8_t how; /* enum blame_how */
	bool guessed;
	bool nobody; /* the lock's owner has ended, or is of another process: nobody will give it back */
	uint32_t times,
		all; /* of BLAME_UNTIL_NOW: so many of so many of these waits; of BLAME_CHILD: all of the children */
	uint32_t object; /* of BLAME_ASKED */
	uint8_t kind;
};

/* The graph that has ended, and what was seen beside it. */
struct blame_log {
	const struct flow_graph *g;
	const struct seen *seen;
	const struct flow_threads *threads;
	const struct flow_node *node;
	const struct flow_edge *edge;
	size_t nnodes, nedges;
};

struct blame_log blame_log_of(const struct flow_graph *g, const struct seen *s);

/* Does it wait, idle or in a unit? False of those that have ended. */
bool blame_waits(const struct blame_log *b, uint32_t thread);
bool blame_is_gone(const struct blame_log *b, uint32_t thread);
bool blame_is_stopped(const struct blame_log *b, uint32_t thread);

/* It only lets time pass. */
bool blame_call_sleeps(int call);

/* It waits for any of several things, as event loops do. */
bool blame_call_polls(int call);

struct blame_link blame_link_of(const struct blame_log *b, uint32_t thread);

/* The thread that ended waits as this one before, most often: how is BLAME_UNKNOWN where none was ended by another thread. */
struct blame_link blame_until_now(const struct blame_log *b, uint32_t thread);

#endif
