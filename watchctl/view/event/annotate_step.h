/* annotate_step - the part of annotate that knows the events of a step recording. Inside of annotate. */
#ifndef WATCHCTL_VIEW_EVENT_ANNOTATE_STEP_H
#define WATCHCTL_VIEW_EVENT_ANNOTATE_STEP_H

#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/frames.h"

struct annotate_steps;

/* All outlive it; views may be added later. @threads: annotate_thread_key() -> char *, names. NULL: no memory. */
struct annotate_steps *annotate_steps_new(struct frames *frames, const struct map64 *threads,
					  unsigned int flags, const struct views *views);

/* EVENT_TYPE, _FUNCTION, _CALL to _INPUT. Fails only for lack of memory. */
struct wc_error *annotate_steps_put(struct annotate_steps *s, const struct trace_event *e,
				    struct view_time time);

/* Accepts NULL. */
void annotate_steps_free(struct annotate_steps *s);

static inline uint64_t annotate_thread_key(int32_t pid, int32_t tid)
{
	return (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
}

#endif
