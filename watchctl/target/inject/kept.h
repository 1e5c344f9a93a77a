/*
 * kept - whether a process holds the address of a handler that is to be unmapped.
 *
 * A program that asks for its action of SIGTRAP (sigaction, signal) while our handler is there is told that
 * handler's address, and may set it again at any time. Nothing tells us that it has asked: what it was given
 * is looked for in its memory.
 *
 * Looked at are the private pages that it has written to, and no others: nothing is brought in that was not
 * there. Left out are handlers, what we have written to its stack ourselves, and what lies below the stack
 * pointers of its threads, where old words remain that nobody reads again.
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
