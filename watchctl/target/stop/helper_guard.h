/*
 * helper_guard - watches over a process that traces for us (the tracer), from a process of its own, its
 * parent: it informs the tracer when the owner has died, and sees the tracer's own end in time to do something
 * about it.
 *
 * When a tracer dies, the kernel lets go of its threads, with whatever it has armed in them. So the guard
 * traces the tracer, with PTRACE_O_TRACEEXIT: a SIGKILL, or a crash, makes it stop at the very beginning of
 * its end, before the kernel takes anything apart.
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
