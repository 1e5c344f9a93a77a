/*
 * perf_bp - one watch as perf events: a breakpoint event for every thread there is, inherited by those
 * to come, delivering SIGTRAP in the thread that made the access. The events belong to this process:
 * when it ends, however it ends, the kernel disarms them.
 */
#ifndef WATCHCTL_ENGINE_PERF_BP_H
#define WATCHCTL_ENGINE_PERF_BP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stackwalk/insn.h"
#include "watchctl/base/error.h"

struct perf_bp_event {
	int fd;
	pid_t tid;
};

struct perf_bp {
	struct perf_bp_event *event;
	size_t n, cap;
	bool kernel;
};

struct perf_guard;

struct perf_bp_spec {
	uint64_t addr;
	uint32_t size;
	enum access_kind access;
	uint64_t sig_data;
	unsigned int others;		/* watches of ours that every thread already carries */
	const struct perf_guard *guard; /* NULL: none to be had */
	unsigned int used;		/* debug registers in use in every thread, ours and others' */
};

/*
 * Arms every thread of @pid. *threads, *armed: how many there were at the end, and how many carry the
 * watch. On error nothing stays armed. WC_ESLOTS: no register; WC_EPERM: perf forbidden; WC_ENOTSUP.
 */
struct wc_error *perf_bp_open(pid_t pid, const struct perf_bp_spec *spec, struct perf_bp *ret,
			      uint32_t *threads, uint32_t *armed);

/* Hits so far, in all threads, those that have ended included. */
uint64_t perf_bp_count(const struct perf_bp *bp);

/* No more hits; the count stays. */
void perf_bp_disable(struct perf_bp *bp);

/* Closes the events. Accepts zero-initialised. */
void perf_bp_close(struct perf_bp *bp);

/* How many of the four debug registers thread @tid has in use, as far as perf knows; -1: cannot be told. */
int perf_bp_used(pid_t tid);

#endif
