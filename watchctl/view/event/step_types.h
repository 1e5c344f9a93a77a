/* step_types - what a step log has reported about types and functions, by id. */
#ifndef WATCHCTL_VIEW_EVENT_STEP_TYPES_H
#define WATCHCTL_VIEW_EVENT_STEP_TYPES_H

#include "watchctl/base/map64.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/view/event/view.h"

/* Zero-initialised is empty. */
struct step_types {
	struct map64 types;	/* id -> struct type_event */
	struct map64 functions; /* id -> struct view_function */
	void **block; /* all that was ever reported: what is reported anew does not end the life of the old */
	size_t nblocks, blocks_cap;
};

/* Copy @e. False: no memory. */
bool step_types_add(struct step_types *t, const struct type_event *e);
bool step_types_add_function(struct step_types *t, const struct function_event *e);

/* NULL: not reported. Lives as long as @t. */
const struct type_event *step_types_get(const struct step_types *t, uint32_t id);

/* One that was not reported is made up. NULL: no memory. Lives as long as @t. */
const struct view_function *step_types_function(struct step_types *t, uint32_t id);

struct type_lookup step_types_lookup(const struct step_types *t);

void step_types_deinit(struct step_types *t);

#endif
