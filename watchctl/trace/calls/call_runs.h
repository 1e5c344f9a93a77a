/*
 * call_runs - at which event of which thread each position of a merge is, so that it can be read again. Events of one
 * thread that are passed on one after the other are a run. Where threads take turns there are about as many runs as
 * events: all but the last one are kept packed, most of them in a byte.
 */
#ifndef WATCHCTL_TRACE_CALLS_CALL_RUNS_H
#define WATCHCTL_TRACE_CALLS_CALL_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Events of one packet, up to the position of the next run; or the ends of calls that were open before @event, all with
 * @ending.
 */
struct call_run {
	uint64_t position; /* of the first of them */
	uint64_t event;	   /* its number among the thread's */
	uint64_t calls;	   /* that were passed on before */
	uint32_t thread;
	uint8_t ending; /* enum return_how, or 0 */
};

/* Zero-initialised is empty. */
struct call_runs {
	bool any;
	struct call_run last;
	uint8_t *byte;
	size_t nbytes, bytes_cap;
	struct call_runs_block *block;
	size_t nblocks, blocks_cap, runs; /* of the last block */
	struct call_runs_thread *thread;
	size_t nthreads;
};

/* Position and calls are not below those of the run before, whose positions end here. False: no memory. */
bool call_runs_begin(struct call_runs *r, const struct call_run *run);

/* The run that has @position; false: there is none. The last one has all from its first on. */
bool call_runs_find(const struct call_runs *r, uint64_t position, struct call_run *ret);

void call_runs_deinit(struct call_runs *r);

#endif
