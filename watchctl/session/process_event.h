/* process_event - reports a process to a sink; nothing else makes an EVENT_PROCESS of a pid. */
#ifndef WATCHCTL_SESSION_PROCESS_EVENT_H
#define WATCHCTL_SESSION_PROCESS_EVENT_H

#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/event.h"

/* The process that is recorded, as it is now. */
struct wc_error *process_event_put(pid_t pid, struct event_sink sink);

/* A child of it, as it was at @time_ns: its program and its arguments may be others by now, and are left out. */
struct wc_error *process_event_put_child(pid_t pid, pid_t parent, const char *comm, uint64_t time_ns,
					 struct event_sink sink);

#endif
