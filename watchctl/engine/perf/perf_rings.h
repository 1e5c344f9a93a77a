/*
 * perf_rings - the kernel's own samples of breakpoint events: one ring a CPU, into which the events of all
 * threads and watches on that CPU write; read in the order of time. For where BPF is not permitted.
 */
#ifndef WATCHCTL_ENGINE_PERF_PERF_RINGS_H
#define WATCHCTL_ENGINE_PERF_PERF_RINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/regs.h"

struct perf_event_attr;
struct perf_rings;

struct perf_sample {
	uint64_t tag;	  /* of the event */
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t addr;	  /* of the debug register */
	pid_t pid, tid;	  /* as we number them */
	bool kernel;   /* hit in the kernel: then interrupted holds its registers, and regs the program's */
	bool has_regs; /* false: a thread that never runs in user mode */
	struct regs regs, interrupted;
	const void *stack; /* from regs' rsp upwards */
	size_t stack_len;  /* a multiple of 8 */
};

/*
 * @size: of all rings together, at most; less where the kernel does not grant it. Samples hold up to @stack
 * bytes of stack. WC_EPERM: not even a small one is granted.
 */
struct wc_error *perf_rings_open(pid_t pid, size_t size, uint32_t stack, struct perf_rings **ret);
void perf_rings_close(struct perf_rings *r); /* accepts NULL */

/* CPUs, each of which needs an event of its own in each thread. */
size_t perf_rings_cpus(const struct perf_rings *r);
int perf_rings_cpu(const struct perf_rings *r, size_t i);

/* What an event must ask for. */
void perf_rings_ask(const struct perf_rings *r, struct perf_event_attr *attr);

/* Event @fd, on the @i-th CPU, writes into that CPU's ring. False: refused (errno). */
bool perf_rings_add(struct perf_rings *r, size_t i, int fd, uint64_t tag);

/*
 * Samples until @until_ns, the oldest first, as long as @fn returns true. A sample that it was given is
 * taken, whatever it returns, and lives until it does.
 */
void perf_rings_read(struct perf_rings *r, uint64_t until_ns,
		     bool (*fn)(void *ctx, const struct perf_sample *s), void *ctx);

/* Sleeps until a ring fills up, @fd is readable, or the time is over. */
void perf_rings_wait(const struct perf_rings *r, int fd, uint64_t ns);

#endif
