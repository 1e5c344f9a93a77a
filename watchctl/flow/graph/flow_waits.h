/*
 * flow_waits - what calls and futexes do, for the graph of causes. Which waits end a unit of work is not said here: see flow_rules.h.
 */
#ifndef WATCHCTL_FLOW_GRAPH_FLOW_WAITS_H
#define WATCHCTL_FLOW_GRAPH_FLOW_WAITS_H

#include <stdbool.h>

#include "watchctl/trace/flow/flow_reader.h"

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

/* Bytes come out at the other end in the order in which they were written. */
bool flow_kind_is_stream(int kind);

#endif
