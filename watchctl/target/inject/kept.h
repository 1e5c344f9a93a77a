/*
 * kept - whether a process holds the address of a handler that is to be unmapped.
 *
 * A program that queries its SIGTRAP action (sigaction, signal) while our handler is installed receives the
 * handler's address, and may set it again at any time. The query itself cannot be seen, so the address is
 * searched in the program's memory.
 *
 * Only private pages that the program has written to are searched, so that no page is brought in. Excluded are
 * handlers, what we have written to its stack ourselves, and memory below the stack pointers of its threads,
 * where stale words remain that are never read again.
 */
#ifndef WATCHCTL_TARGET_INJECT_KEPT_H
#define WATCHCTL_TARGET_INJECT_KEPT_H

#include <stdint.h>
#include <sys/types.h>

enum kept {
	KEPT_NOWHERE,
	KEPT_SOMEWHERE,
	KEPT_UNKNOWN,	 /* its memory could not be looked at, or not within some seconds */
	KEPT_NOT_LOOKED, /* which pages it has written to may not be known (no right to /proc/PID/pagemap) */
};

/*
 * Whether one of the @n addresses is there; *@ret_at: where, for KEPT_SOMEWHERE. Stops, one after the other
 * and briefly, the threads that run. A process that has ended holds nothing.
 */
enum kept kept_look(pid_t pid, const uint64_t *handler, unsigned int n, uint64_t *ret_at);

#endif
