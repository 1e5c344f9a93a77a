/* step_track - the open calls of each thread, with the addresses that their stacks are made of. */
#ifndef WATCHCTL_VIEW_EVENT_STEP_TRACK_H
#define WATCHCTL_VIEW_EVENT_STEP_TRACK_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"

/* Zero-initialised is empty. */
struct step_track {
	struct map64 threads; /* pid, tid -> struct step_thread */
	uint64_t *stack;      /* of the last answer */
	size_t stack_cap;
};

/*
 * The call @e of @f begins. @ret: valid until its return, or the next call of its thread. NULL: no memory.
 */
const struct view_open_call *step_track_enter(struct step_track *t, const struct call_event *e,
					      const struct view_function *f, uint64_t time_ns);

/*
 * The whole stack of the innermost open call of the thread, that of @e: return addresses, innermost first,
 * valid until the next call. *@end is why there are no more. False: no memory.
 */
bool step_track_stack(struct step_track *t, const struct call_event *e, const uint64_t **ret, uint32_t *n,
		      enum walk_end *end);

/* The call @call of the thread, if it is open. Valid as those of step_track_enter(). */
const struct view_open_call *step_track_find(const struct step_track *t, int32_t pid, int32_t tid,
					     uint64_t call);

/* It has ended after @duration_ns, and whatever is open inside of it. */
void step_track_leave(struct step_track *t, int32_t pid, int32_t tid, uint64_t call, uint64_t duration_ns);

/* Outermost first; with @call, up to that one, which may be missing: none are known then. */
const struct view_open_call *step_track_open(const struct step_track *t, int32_t pid, int32_t tid,
					     uint64_t call, size_t *n);

void step_track_deinit(struct step_track *t);

#endif
