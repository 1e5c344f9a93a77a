/*
 * remote - a thread of the target at our disposal for a few system calls, in memory of its own that
 * is certainly free. See tracee.h for why every state must lead home alone.
 */
#ifndef WATCHCTL_TARGET_INJECT_REMOTE_H
#define WATCHCTL_TARGET_INJECT_REMOTE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/urgent.h"
#include "watchctl/target/inject/gadget.h"
#include "watchctl/target/proc/layout.h"
#include "watchctl/target/stop/tracee.h"

/* A system call that a thread makes on its way home when it is left to itself. len 0: none. */
struct remote_undo {
	long nr;
	uint64_t addr, len; /* its arguments */
};

struct remote {
	struct tracee thread;
	struct tracee *held; /* somebody else's stopped thread, on loan; NULL: stopped by us */
	uint64_t rip, rsp;   /* the stub in use and its stack */
	uint64_t scratch;    /* where in the target's memory the frame lies while no memory is ours */
	uint64_t home_rsp;   /* with scratch: the stack that leads home without an undo */
	uint64_t undo_rsp;   /* ... and the one with it */
	bool any;	     /* another thread would do as well */
	struct remote_undo undo;
	struct urgent urgent;  /* while it waits for us */
	struct layout *layout; /* owned; NULL: to be read once it is needed */
};

/*
 * Stops a thread: @tid, or with 0 the one that minds least (running in user code, else in a call that
 * restarts by itself). Where @held is a stopped thread (its tid is not 0) it
 * is used, and stays stopped after remote_close(). A thread under seccomp is not used: its filter may kill it
 * for what we have it do; nor is one whose system calls are dispatched (dispatch.h). Errors say who holds it,
 * or what would permit it.
 */
struct wc_error *remote_open(pid_t pid, pid_t tid, struct tracee *held, struct remote *ret);

/*
 * As above, for remote_use_gadgets(): what that has to know of the address space is learned before the thread
 * is stopped.
 */
struct wc_error *remote_open_prepared(pid_t pid, pid_t tid, struct tracee *held, struct remote *ret);

/*
 * Uses the program's own instructions and memory that is certainly nobody's (scratch.h). Where any thread
 * will do, it may be another one afterwards.
 */
struct wc_error *remote_use_gadgets(struct remote *r, const struct gadgets *g);

/*
 * The same; and should we be killed from here on, the thread makes system call @undo on its way home, which
 * must do no harm whether or not what it is to undo was done. Until remote_keep().
 */
struct wc_error *remote_use_gadgets_undoing(struct remote *r, const struct gadgets *g,
					    const struct remote_undo *undo);

/* What was done stays: from the next system call on it goes straight home again. */
void remote_keep(struct remote *r);

/* The opposite: from the next system call on it makes @undo on its way home. */
void remote_undo_from_here(struct remote *r);

/* Uses our own stub at @rip, with a frame at @frame in memory of ours (TRACEE_FRAME_MAX bytes, 64-aligned).
 */
struct wc_error *remote_use_stub(struct remote *r, uint64_t rip, uint64_t frame);

struct wc_error *remote_syscall(struct remote *r, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				uint64_t e, uint64_t f, long *ret);

/* Home, scratch cleaned, detached. Accepts a remote that was never opened. Returns the time stopped, ns. */
uint64_t remote_close(struct remote *r);

/* For scoped(remote_closep). */
static inline void remote_closep(struct remote *r)
{
	remote_close(r);
}

#endif
