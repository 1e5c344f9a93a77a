/* flow_explain_cmd - `watchctl flow explain -p PID`: why a process hangs. */
#ifndef WATCHCTL_CLI_FLOW_FLOW_EXPLAIN_CMD_H
#define WATCHCTL_CLI_FLOW_FLOW_EXPLAIN_CMD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/cli/options/options.h"

struct flow_explain_ask {
	pid_t pid;
	uint64_t between_ns;
	uint32_t frames;
	bool all, no_stack, json;
	unsigned int colour;
};

/* Those that explain alone has. */
extern const struct option flow_explain_options[];

struct wc_error *flow_explain_run(struct flow_explain_ask *q);

#endif
