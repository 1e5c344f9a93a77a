/* step_filter - which calls are wanted: of a thread, of functions by name with all that is called from them,
 * to a depth. */
#ifndef WATCHCTL_VIEW_EVENT_STEP_FILTER_H
#define WATCHCTL_VIEW_EVENT_STEP_FILTER_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"

struct step_filter {
	const char *function; /* as for fnmatch(3), of the name with or without parameters; NULL: all */
	const char *thread;   /* its number or name; NULL: all */
	uint32_t depth;	      /* levels of calls that are wanted, from each outermost one; 0: all */
	struct map64 threads; /* where each is: step_filter.c's own */
	bool function_seen, thread_seen;
};

/*
 * True: wanted, and *@depth is how many wanted calls are around it. To be asked about every call and every
 * return, in order.
 */
bool step_filter_call(struct step_filter *f, const struct view_call *c, uint32_t *depth);
bool step_filter_return(struct step_filter *f, const struct view_return *r, uint32_t *depth);

/* Of something else that happens in a thread in which @depth calls are open. */
bool step_filter_moment(struct step_filter *f, int32_t pid, int32_t tid, const char *comm, uint32_t *depth);

/* Whether @pattern means the function @name, with or without its parameters. */
bool step_filter_names(const char *pattern, const char *name);

/* Of a thread as a whole. */
bool step_filter_thread(const struct step_filter *f, int32_t tid, const char *comm);

void step_filter_deinit(struct step_filter *f);

#endif
