/*
 * family_watch - whether a process or any of its descendants, born since, still runs the program that it ran:
 * the breakpoint events that they inherited live as long. Reported by perf events that count nothing and are
 * inherited the same way: the kernel hangs up on them once the last one is gone (before Linux 6.15: with the
 * process itself).
 */
#ifndef WATCHCTL_ENGINE_PERF_FAMILY_WATCH_H
#define WATCHCTL_ENGINE_PERF_FAMILY_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct family_watch {
	int *fd; /* of an event, one a thread */
	size_t n, cap;
	void *ring;
};

/* False: not permitted, or no memory for it. */
bool family_watch_open(struct family_watch *w, pid_t pid);
void family_watch_close(struct family_watch *w); /* accepts zero-initialised */

bool family_watch_ended(const struct family_watch *w);

#endif
