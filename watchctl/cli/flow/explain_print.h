/* explain_print - an explanation, as text for people and as JSON for programs: watchctl-flow(1). */
#ifndef WATCHCTL_CLI_FLOW_EXPLAIN_PRINT_H
#define WATCHCTL_CLI_FLOW_EXPLAIN_PRINT_H

#include <stdbool.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/explain/explanation.h"

struct explain_show {
	bool all; /* every thread that was looked at */
	bool no_stack;
	unsigned int frames;   /* of a stack, at most; 0: all */
	unsigned int culprits; /* at most; 0: all */
	unsigned int colour;   /* as COLOUR_WORDS */
};

/* To standard output. @without: why BPF was not used, or NULL. @looked_ns: CLOCK_REALTIME. */
struct wc_error *explain_print_text(const struct explanation *e, const struct explain_show *show,
				    const char *without);
struct wc_error *explain_print_json(const struct explanation *e, const struct explain_show *show,
				    const char *without, uint64_t looked_ns);

#endif
