/*
 * helper_guard - guards the process that traces for us (the tracer), from a separate process, its parent: it
 * informs the tracer when the owner has died, and notices the tracer's own end in time to restore the target.
 *
 * When a tracer dies, the kernel releases its threads, with everything that is armed in them. Therefore the
 * guard traces the tracer, with PTRACE_O_TRACEEXIT: after a SIGKILL or a crash, the tracer stops at the
 * beginning of its exit, before the kernel detaches anything.
 */
#ifndef WATCHCTL_TARGET_STOP_HELPER_GUARD_H
#define WATCHCTL_TARGET_STOP_HELPER_GUARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct helper_guard {
	pid_t tracer;
	int poke; /* the signal by which it is made to look around; it gets no others but SIGUSR2 and SIGALRM
		   */
	/* In memory that is shared with it: */
	uint32_t *orphaned;	  /* set when the owner has ended */
	const uint32_t *leaving;  /* it knows */
	const uint32_t *finished; /* it has done its work */
	/* It is about to end, unfinished; its threads are still its own. */
	void (*is_dying)(void *ctx);
	void *ctx;
	int child_fd; /* ours */
	bool ended;
};

/* Before the tracer is forked: false: it cannot be. The owner's pidfd is HELPER_OWNER_FD. */
bool helper_guard_init(struct helper_guard *g);

/* The tracer is forked, and waits until it may begin. */
void helper_guard_start(struct helper_guard *g);

/* Until the tracer has ended. */
void helper_guard_watch(struct helper_guard *g);

#endif
