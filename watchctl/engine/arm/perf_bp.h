/*
 * perf_bp - one watch as perf events: a breakpoint event for every thread there is, inherited by those
 * to come, delivering SIGTRAP in the thread that made the access. The events belong to this process:
 * when it ends, however it ends, the kernel disarms them.
 */
#ifndef WATCHCTL_ENGINE_ARM_PERF_BP_H
#define WATCHCTL_ENGINE_ARM_PERF_BP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/engine/arm/armed_process.h"

struct perf_bp_event {
	int fd;
	pid_t tid;
};

/* A thread that has no copy of its own yet of what is watched. It is not stopped again to be asked for its fs base. */
struct perf_bp_without {
	pid_t tid;
	uint64_t thread_pointer;
};

struct perf_bp {
	struct perf_bp_event *event;
	size_t n, cap;
	uint64_t past; /* counted by threads that have ended, whose events are closed */
	bool kernel;
	struct perf_bp_without *without;
	size_t nwithout, without_cap;
	uint64_t looked_ns; /* when threads were last looked for: so those are still the same */
};

struct kernel_recorder;
struct tracee;
struct perf_rings;

struct perf_bp_spec {
	uint64_t addr;
	uint32_t size;
	enum access_kind access;
	uint64_t sig_data;
	unsigned int others; /* watches of ours that every thread already carries */
	unsigned int used;   /* debug registers in use in every thread, ours and others' */
	/*
	 * Another address in each thread, by its fs base, and nothing is inherited: perf_bp_extend() arms new threads.
	 * False: this one has none yet. NULL: addr.
	 */
	bool (*address)(void *ctx, uint64_t thread_pointer, uint64_t *ret);
	void *address_ctx;
	const struct tracee *held;		/* a thread that stands still anyway; NULL: none does */
	bool children;				/* forked children inherit it too, not only threads */
	const struct kernel_recorder *recorder; /* put on every event; NULL: none to be had */
	struct perf_rings
		*rings; /* the events write samples there, and are tagged with sig_data; NULL: none */
	bool quiet;	/* no SIGTRAP: the recorder records, or the rings */
	bool user_only; /* the kernel's accesses are not to be seen */
	struct armed_process process;
};

/*
 * Arms every thread of @pid. *threads, *armed: how many there were at the end, and how many carry the
 * watch. On error nothing stays armed. WC_ESLOTS: no register; WC_EPERM: perf forbidden; WC_ENOTSUP (one that was set on a word of
 * our own did not fire, too);
 * WC_ETARGET: it has ended, or is not what was meant.
 */
struct wc_error *perf_bp_open(pid_t pid, const struct perf_bp_spec *spec, struct perf_bp *ret,
			      uint32_t *threads, uint32_t *armed);

/*
 * Arms threads that have none of it yet, of a watch with an address of its own in each; lets go of those that
 * ended. *threads as above; *armed: how many carry it now.
 */
struct wc_error *perf_bp_extend(pid_t pid, const struct perf_bp_spec *spec, struct perf_bp *bp,
				uint32_t *threads, uint32_t *armed);

/* Why the kernel's accesses are not seen, a phrase; NULL: they are, or make no sense. Constant. */
const char *perf_bp_kernel_refusal(const struct perf_bp_spec *spec, const struct perf_bp *bp);

/* Hits so far, in all threads, those that have ended included. */
uint64_t perf_bp_count(const struct perf_bp *bp);

/* No more hits; the count stays. */
void perf_bp_disable(struct perf_bp *bp);

/* Closes the events. Accepts zero-initialised. */
void perf_bp_close(struct perf_bp *bp);

/* How many of the four debug registers thread @tid has in use, as far as perf knows; -1: cannot be known, or they do nothing here. */
int perf_bp_used(pid_t tid);

#endif
