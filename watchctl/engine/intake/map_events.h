/*
 * map_events - what the kernel reports about a process the moment it happens: each mapping of code (exec, the
 * loader, dlopen(), mprotect()), each birth, each new name of a thread, each program executed. These are perf
 * events that count nothing; they need no more than what a breakpoint needs, and can be had on one's own
 * processes. What happened before an access was made can be read once the access is known.
 *
 * Two ways, by what they cost the program:
 *	its threads	an event and a ring in each thread there is. A new thread gets one when its birth is
 * read its family	events that threads and forked children inherit, one a CPU, each CPU's in one ring.
 * That makes threads dearer to create, by some microseconds for each CPU
 *
 * Neither is reported: munmap(), mremap().
 */
#ifndef WATCHCTL_ENGINE_INTAKE_MAP_EVENTS_H
#define WATCHCTL_ENGINE_INTAKE_MAP_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/code/elf/module_report.h"

enum map_event_kind {
	MAP_EVENT_CODE, /* memory became executable */
	MAP_EVENT_FORK, /* a thread or a process was born */
	MAP_EVENT_NAME, /* of a thread */
	MAP_EVENT_EXEC, /* a process executes another program: nothing comes of it any more */
	MAP_EVENT_END,	/* of a thread */
	MAP_EVENT_LOST, /* some did not fit */
};

struct map_event {
	enum map_event_kind kind;
	uint64_t time_ns;	   /* CLOCK_MONOTONIC */
	pid_t pid, tid;		   /* whose; of MAP_EVENT_FORK the new one */
	pid_t parent, parent_tid;  /* of MAP_EVENT_FORK */
	struct module_report code; /* of MAP_EVENT_CODE; the path of memory without a file is "//anon" */
	const char *name;	   /* of MAP_EVENT_NAME; of MAP_EVENT_EXEC the program's */
};

struct map_events;

/* @family: of its children, too, that are forked from now on. NULL: not permitted, or no memory. */
struct map_events *map_events_open(pid_t pid, bool family);
void map_events_close(struct map_events *e); /* accepts NULL */

/*
 * Looks for threads that have no event yet. True: each has one, and nothing was lost: of all that is reported by
 * events, nothing is missed from now on. To be asked before the mappings themselves are looked at.
 */
bool map_events_complete(struct map_events *e);

/* Whether that still holds. */
bool map_events_are_complete(const struct map_events *e);

/* What has come up to now is what map_events_next() gives. False: there is nothing. */
bool map_events_look(struct map_events *e);

/* The next one, the oldest first, valid until the next call. False: there is none. */
bool map_events_next(struct map_events *e, struct map_event *ret);

#endif
