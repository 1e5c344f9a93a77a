/* slow - of something that did go on: the wait that took longest on the path to it. */
#ifndef WATCHCTL_FLOW_BLAME_SLOW_H
#define WATCHCTL_FLOW_BLAME_SLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/blame/link.h"
#include "watchctl/flow/graph/flow_path.h"

struct blame_slow {
	uint32_t asked, waiter,
		who;		   /* threads; who: that was waited for, or @waiter where that is not known */
	uint32_t wait;		   /* edge, FLOW_NONE: there is none */
	uint64_t wait_ns, path_ns; /* path: from the first thing that is known to the end */
	struct flow_path path;	   /* of @asked, the newest first */
};

/* Backwards from what @thread did last. @ret is the caller's to blame_slow_deinit(). wc_enomem. */
struct wc_error *blame_slow_find(const struct blame_log *b, uint32_t thread, struct blame_slow *ret);
void blame_slow_deinit(struct blame_slow *s);

#endif
