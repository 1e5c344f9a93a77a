/* told_types - the types of a planner in a log: each is told once, and those that it is made of before it. */
#ifndef WATCHCTL_STEP_MODEL_TOLD_TYPES_H
#define WATCHCTL_STEP_MODEL_TOLD_TYPES_H

#include "watchctl/base/map64.h"
#include "watchctl/step/model/planner.h"

/* Zero-initialise, but for the first two, which outlive it. */
struct told_types {
	const struct planner_ops *ops;
	struct planner *planner;
	struct map64 told; /* id + 1 -> anything */
};

/* Reports type @id, if it was not, at @time_ns. NO_TYPE: nothing. */
struct wc_error *told_types_tell(struct told_types *t, uint32_t id, uint64_t time_ns, struct event_sink sink);

/* ... and all that parameters and result of @f have. */
struct wc_error *told_types_tell_function(struct told_types *t, const struct function_event *f,
					  uint64_t time_ns, struct event_sink sink);

/* NULL: it is not known. Lives as long as the planner. */
const struct type_event *told_types_find(const struct told_types *t, uint32_t id);

void told_types_deinit(struct told_types *t);

#endif
