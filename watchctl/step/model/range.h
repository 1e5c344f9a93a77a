/*
 * range - when a recording begins and ends: occurrences of a range, counted, chosen, limited. Pure state, the
 * same for every stepper.
 *
 *	--from A --to B		an occurrence begins where a thread reaches A, and ends where any thread
 * reaches B
 *	--from A		begins at A and ends when it has ended
 *	--to B			begins at once, ends at B
 *	neither			begins at once, ends with the process
 *
 * While an occurrence lasts, further threads that reach A are a part of it.
 */
#ifndef WATCHCTL_STEP_MODEL_RANGE_H
#define WATCHCTL_STEP_MODEL_RANGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/trace/event.h"

struct range_options {
	bool has_from, has_to;
	bool from_is_function; /* the end of A, if it is a function, ends the occurrence: without B */
	uint32_t occurrence;   /* the first one to be recorded, 1.. */
	uint32_t count;	       /* how many; 0: all from there on */
};

enum range_state {
	RANGE_OUTSIDE,	/* waiting for A */
	RANGE_INSIDE,	/* recording */
	RANGE_SKIPPING, /* inside an occurrence that is not to be recorded */
	RANGE_DONE,	/* no more is wanted */
};

struct range {
	struct range_options options;
	enum range_state state;
	uint32_t occurrence;	     /* how many have begun */
	pid_t tid;		     /* that began the present one; 0: none did, the range has no beginning */
	uint64_t sp;		     /* at its entry */
	uint64_t from_seen, to_seen; /* how often each end was reached, whatever came of it */
};

void range_init(struct range *r, const struct range_options *o);

/* A thread stands at A. True: an occurrence has begun (state shows whether it is recorded). */
bool range_at_from(struct range *r, pid_t tid, uint64_t sp);

/* A thread stands at B. True: the occurrence has ended. */
bool range_at_to(struct range *r, pid_t tid);

/* The function A of thread @tid, entered with @sp, has ended in some way. True: so has the occurrence. */
bool range_from_ended(struct range *r, pid_t tid, uint64_t sp);

/* A limit is reached. True: the occurrence has ended. */
bool range_cut(struct range *r);

/* The thread has ended. True: so has the occurrence. */
bool range_thread_ended(struct range *r, pid_t tid);

#endif
