/* flow_record_cmd - `watchctl flow record -o LOG`: what connects the threads of the system, into a log. */
#ifndef WATCHCTL_CLI_FLOW_FLOW_RECORD_CMD_H
#define WATCHCTL_CLI_FLOW_FLOW_RECORD_CMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "watchctl/cli/options/options.h"
#include "watchctl/cli/output/ready_options.h"
#include "watchctl/trace/flow/flow_attached.h"

struct flow_record_ask {
	const char *log;
	bool force, only_program, json;
	bool stacks;
	uint64_t ring, buffer, time_ns, stacks_ns;
	const char *cgroup;
	const char *attach[FLOW_ATTACHED_MOST]; /* logs of the same time */
	size_t nattach;
	const pid_t *pid; /* the only ones whose system calls are recorded */
	size_t npids;
	char *const *argv;
	struct ready_ask ready;
};

/* Those that record alone has. */
extern const struct option flow_record_options[];

struct wc_error *flow_record_run(struct flow_record_ask *q);

#endif
