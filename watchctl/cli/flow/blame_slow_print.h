/* blame_slow_print - of what did go on in a log, but slowly: watchctl-flow(1). To standard output. */
#ifndef WATCHCTL_CLI_FLOW_BLAME_SLOW_PRINT_H
#define WATCHCTL_CLI_FLOW_BLAME_SLOW_PRINT_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/base/error.h"
#include "watchctl/cli/flow/graph/flow_graph_print.h"
#include "watchctl/flow/blame/compare.h"
#include "watchctl/flow/blame/slow.h"

/* The longest wait on a path. */
struct wc_error *blame_print_slow(const struct blame_log *b, const struct flow_shown *s,
				  const struct blame_slow *slow, bool json);

/* Units and waits that grew beside a baseline. */
struct wc_error *blame_print_compared(const struct blame_log *b, const struct flow_shown *s,
				      const struct compared *grown, size_t n, bool json);

#endif
