/*
 * stop_wait - a tracer waits for the next stop of any of its threads, without sleeping when stops follow each
 * other quickly.
 */
#ifndef WATCHCTL_TARGET_STOP_STOP_WAIT_H
#define WATCHCTL_TARGET_STOP_STOP_WAIT_H

#include <stdbool.h>
#include <sys/types.h>

/* Zero-initialise. */
struct stop_wait {
	bool hot;		    /* the last wait was short */
	unsigned int no_spin;	    /* stops until it may be tried again */
	unsigned int found_at_once; /* stops in a row that the first look has found */
};

/* As waitpid(-1, status, __WALL | flags), with @flags 0 or WNOHANG. */
typedef pid_t (*stop_take_fn)(void *ctx, int *status, int flags);

/* As @take with flags 0: a signal ends the wait, too. */
pid_t stop_wait_next(struct stop_wait *w, stop_take_fn take, void *ctx, int *status);

#endif
