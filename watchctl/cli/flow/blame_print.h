/* blame_print - an explanation of a log, as text for people and as JSON for programs: watchctl-flow(1). */
#ifndef WATCHCTL_CLI_FLOW_BLAME_PRINT_H
#define WATCHCTL_CLI_FLOW_BLAME_PRINT_H

#include "watchctl/base/error.h"
#include "watchctl/cli/flow/graph/flow_graph_print.h"
#include "watchctl/flow/blame/baseline.h"
#include "watchctl/flow/blame/blame.h"

/* A baseline, of the wait of the first culprit's first thread. */
struct blame_beside {
	const struct flow_shown *shown; /* the good log */
	const struct blame_log *good;
	const struct baseline *baseline;
};

/* To standard output. @beside: or NULL. */
struct wc_error *blame_print_text(const struct blame *b, const struct flow_shown *s,
				  const struct blame_beside *beside);
struct wc_error *blame_print_json(const struct blame *b, const struct flow_shown *s,
				  const struct blame_beside *beside);

#endif
