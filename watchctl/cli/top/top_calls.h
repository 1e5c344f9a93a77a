/* top_calls - `watchctl top --calls`: a live table of the traced functions of a running program, or without a screen one table at the end. */
#ifndef WATCHCTL_CLI_TOP_TOP_CALLS_H
#define WATCHCTL_CLI_TOP_TOP_CALLS_H

#include <signal.h>

#include "watchctl/cli/output/ready_options.h"
#include "watchctl/cli/request/trace_choice.h"
#include "watchctl/view/table/call_times.h"

struct top_calls_ask {
	pid_t pid;
	const struct trace_choice *choice;
	bool pending, wait; /* as of struct call_trace_options */
	uint64_t count, time_ns, delay_ns;
	enum call_times_order sort;
	bool json;
	unsigned int colour; /* as COLOUR_WORDS */
	struct ready_ask *ready;
	volatile sig_atomic_t *stop; /* set by signals, and here when the user has enough */
};

/* Until something ends it; nothing of ours is left in the program then. */
struct wc_error *top_calls_run(const struct top_calls_ask *q);

#endif
