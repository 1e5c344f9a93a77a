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
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What guard, tracer and owner share, in memory that all three have. */
struct helper_box {
	int32_t guard_pid, tracer_pid;
	uint32_t guarded;  /* the tracer may begin */
	uint32_t finished; /* the tracer has left every thread as it was found */
	uint32_t orphaned; /* the owner is gone */
	uint32_t leaving;  /* the tracer knows, or was told to leave */
};

struct helper_life {
	const char *name; /* of the process; up to 15 characters */
	pid_t target;
	int owner_fd, memory_fd; /* see helper_withdraw() */
	int poke; /* the signal by which the tracer is made to look around; it gets no others but SIGUSR2 and SIGALRM */
	struct helper_box *box;
	/* Why it gave up, for the owner. */
	char *text;
	size_t text_len;
	void (*prepare)(void *ctx);  /* before the tracer is there; NULL: nothing */
	void (*trace)(void *ctx);    /* the tracer's life; does not return */
	void (*is_dying)(void *ctx); /* it is about to end, unfinished; its threads are still its own */
	void (*rescue)(void *ctx);   /* it has ended, unfinished */
	void *ctx;
};

/* Forks the tracer, and watches over it until it has ended. The owner's pidfd is HELPER_OWNER_FD. */
void helper_guard_live(const struct helper_life *life) __attribute__((noreturn));

#endif
