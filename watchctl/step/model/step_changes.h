/*
 * step_changes - what the stepper has reported of the memory that open calls change, until their ends take it into
 * the log (RETURN_POINTEE, RETURN_DATA, RETURN_MEMBER of call_values.h).
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_CHANGES_H
#define WATCHCTL_STEP_MODEL_STEP_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/step/model/planner.h"
#include "watchctl/step/model/step_globals.h"
#include "watchctl/step/model/step_members.h"
#include "watchctl/step/model/stepper.h"
#include "watchctl/step/model/told_types.h"

struct changes_of_call;

/* Zero-initialised is empty. */
struct step_changes {
	struct changes_of_call **v; /* of open calls that have any, by their numbers */
	size_t n, cap;
	uint8_t *bytes, *changed; /* of the words that are put */
	size_t bytes_cap, changed_cap;
};

/* Where changes go: to @buf, of which *len of cap bytes are used; and types that they have, first, to @sink. */
struct changes_out {
	const struct step_globals *globals;
	struct step_members *members;
	struct told_types *types;
	uint64_t time_ns;
	struct event_sink sink;
	uint8_t *buf;
	size_t cap, *len;
};

/* Takes a STEP_WRITTEN of a call of the function that @plan is about. False: no memory. */
bool step_changes_take(struct step_changes *c, const struct step_record *rec,
		       const struct function_plan *plan);

/* Appends those of @call, and forgets it. */
struct wc_error *step_changes_put(struct step_changes *c, uint64_t call, const struct changes_out *o);

void step_changes_deinit(struct step_changes *c);

#endif
