/*
 * step_changes - what the stepper has reported of the memory that open calls change, until their ends take it into
 * the log (RETURN_POINTEE, RETURN_DATA of call_values.h).
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_CHANGES_H
#define WATCHCTL_STEP_MODEL_STEP_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/step/model/step_globals.h"
#include "watchctl/step/model/stepper.h"
#include "watchctl/step/model/planner.h"

struct changes_of_call;

/* Zero-initialised is empty. */
struct step_changes {
	struct changes_of_call **v; /* of open calls that have any, by their numbers */
	size_t n, cap;
};

/* Takes a STEP_WRITTEN of a call of the function that @plan is about. False: no memory. */
bool step_changes_take(struct step_changes *c, const struct step_record *rec,
		       const struct function_plan *plan);

/* Appends those of @call to @buf, of which *len of cap bytes are used, and forgets it. */
void step_changes_put(struct step_changes *c, uint64_t call, const struct step_globals *globals, uint8_t *buf,
		      size_t cap, size_t *len);

void step_changes_deinit(struct step_changes *c);

#endif
