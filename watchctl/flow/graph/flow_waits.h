/*
 * flow_waits - what kinds of waits and calls there are for the graph of causes. Here alone is decided what ends a thread's unit of work.
 */
#ifndef WATCHCTL_FLOW_GRAPH_FLOW_WAITS_H
#define WATCHCTL_FLOW_GRAPH_FLOW_WAITS_H

#include <stdbool.h>

#include "watchctl/trace/flow/flow_reader.h"

enum flow_wait_class {
	FLOW_WAIT_NONE, /* it could go on */
	FLOW_WAIT_IDLE, /* for more to do: the unit ends here */
	FLOW_WAIT_OUT,	/* in a unit, for something that the unit needs */
};

/* Of a switch or a wait. @locks: a futex is one of a mutex, see flow_futex_owner(). */
enum flow_wait_class flow_wait_class(const struct flow_event *e, bool locks);

/*
 * The thread that may have the mutex of a FLOW_WAIT_FUTEX: 0 if the words are not those of a glibc mutex. Whether there is such a thread,
 * and in the same process, is the caller's to look at: other programs' locks have other things there.
 */
int32_t flow_futex_owner(const struct flow_event *e);

bool flow_futex_is_shared(const struct flow_event *e);
bool flow_futex_wakes(uint32_t op);

/* By system call. */
bool flow_call_receives(int call);
bool flow_call_sends(int call);
bool flow_call_ends(int call); /* close, shutdown: the other side wakes */
bool flow_call_signals(int call);
bool flow_call_waits_child(int call);
bool flow_call_takes_signal(int call); /* as its result */

/* A thread may wake another in it; in others (nanosleep, poll, wait4 ...) it wakes nobody: what did was not recorded. */
bool flow_call_wakes(int call);

/* What is written comes out at the other end byte by byte, in order. */
bool flow_kind_is_stream(int kind);

#endif
