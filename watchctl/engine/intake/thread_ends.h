/*
 * thread_ends - when threads of the target ended, the last ones. The kernel then writes to words that they have left to it
 * (set_tid_address(2), set_robust_list(2)), which traps nowhere since Linux 6.16: perf events are removed before.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_THREAD_ENDS_H
#define WATCHCTL_ENGINE_INTAKE_THREAD_ENDS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define THREAD_ENDS 64u

/* All times are CLOCK_MONOTONIC ns. */
struct thread_ends {
	struct {
		uint64_t from, to; /* it was between these */
	} end[THREAD_ENDS];
	uint64_t n; /* modulo THREAD_ENDS: the next */
	/* A short-lived thread may have ended before there was an event that reports its end. */
	struct {
		pid_t tid; /* 0: none */
		uint64_t born_ns, alive_ns;
	} young[THREAD_ENDS];
	uint64_t nyoung;
};

void thread_ends_born(struct thread_ends *e, pid_t tid, uint64_t time_ns);
void thread_ends_ended(struct thread_ends *e, pid_t tid, uint64_t time_ns);

/* Whether the kernel may have written for a thread of @pid between the two times. */
bool thread_ends_any(struct thread_ends *e, pid_t pid, uint64_t after_ns, uint64_t before_ns);

#endif
