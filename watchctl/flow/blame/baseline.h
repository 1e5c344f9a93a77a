/*
 * baseline - a hang beside a log of a good time: who ended the same wait there, over which chain of causes, and where that chain is cut
 * now. Threads correspond by the names of process and thread, in which digits do not count; waits by thread, call, and kind of object.
 */
#ifndef WATCHCTL_FLOW_BLAME_BASELINE_H
#define WATCHCTL_FLOW_BLAME_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/blame/link.h"
#include "watchctl/flow/graph/flow_path.h"

struct baseline_link {
	uint32_t from, to; /* threads of the baseline */
	uint32_t edge;	   /* of its graph */
	bool happened;	   /* in the bad log, since the wait before the one that hangs */
};

struct baseline {
	uint32_t waits,
		ended; /* such waits in the baseline that did end, and those that the same thread ended */
	uint32_t
		ender; /* thread of the baseline that ended most of them, or FLOW_NO_THREAD: no such wait, or nobody */
	struct baseline_link link[FLOW_PATH_STEPS]; /* the first cause first; the last one ends the wait */
	size_t nlinks;
	size_t cut; /* the first behind the last one that happened, or nlinks: all did */
	uint32_t
		culprit; /* the thread of the bad log from which that one would have come, or FLOW_NO_THREAD: none is there */
};

/* Of the wait of @thread of @bad, which goes on. wc_enomem. */
struct wc_error *baseline_find(const struct blame_log *good, const struct blame_log *bad, uint32_t thread,
			       struct baseline *ret);

/* Are thread @x of @a and @y of @b named alike? */
bool baseline_corresponds(const struct blame_log *a, uint32_t x, const struct blame_log *b, uint32_t y);

/* A hash that is the same for threads that are named alike. */
uint64_t baseline_name(const struct blame_log *b, uint32_t thread);

#endif
