/*
 * step_open - the open calls of each thread, and whether anybody wants what one of them returns with. Its caller
 * may not read it, but return with it: then it is a question of the call around that one.
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_OPEN_H
#define WATCHCTL_STEP_MODEL_STEP_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/map64.h"
#include "watchctl/step/model/planner.h"
#include "watchctl/step/model/track.h"

/* Zero-initialise, but for the first two, which outlive it. */
struct step_open {
	const struct planner_ops *ops;
	struct planner *planner;
	struct map64 threads; /* tid -> its calls */
	struct map64 uses;    /* return address and kind of register -> 1 + enum result_use */
};

void step_open_deinit(struct step_open *o);

/* @tid has made call @c of the function that begins at @start (0: not known). False: no memory. */
bool step_open_enter(struct step_open *o, pid_t tid, const struct track_call *c,
		     const struct function_plan *plan, uint64_t start);

/* It is over. Those that it has made, and that are still open, stay. */
void step_open_leave(struct step_open *o, pid_t tid, uint64_t call);

void step_open_end_thread(struct step_open *o, pid_t tid);

/* Code has come or gone: what was found at an address may not hold any more. */
void step_open_forget_code(struct step_open *o);

/*
 * Whether the result of @c, which has just returned and is still among the open calls, may be something left over that nobody looks at.
 * False also where that cannot be known.
 */
bool step_open_is_unused(struct step_open *o, pid_t tid, const struct track_call *c,
			 const struct function_plan *plan);

#endif
