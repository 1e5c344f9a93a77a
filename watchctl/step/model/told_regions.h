/* told_regions - the mappings of a process in a log: each is told once, so that readers know what a pointer points into. */
#ifndef WATCHCTL_STEP_MODEL_TOLD_REGIONS_H
#define WATCHCTL_STEP_MODEL_TOLD_REGIONS_H

#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/trace/event.h"

/* Zero-initialise. */
struct told_regions {
	struct map64 told; /* hash of a region -> anything */
};

/* Reports those of @pid that were not, at @time_ns. Of a process that has gone there are none. */
struct wc_error *told_regions_tell(struct told_regions *t, pid_t pid, uint64_t time_ns,
				   struct event_sink sink);

void told_regions_deinit(struct told_regions *t);

#endif
