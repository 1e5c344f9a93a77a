/*
 * flow_recording - the system's events (flow/kernel/kernel_flow.h) into a new log, for as long as it is wanted, or as long as a program
 * runs.
 */
#ifndef WATCHCTL_MONITOR_FLOW_FLOW_RECORDING_H
#define WATCHCTL_MONITOR_FLOW_FLOW_RECORDING_H

#include <stddef.h>

#include "watchctl/base/error.h"
#include "watchctl/flow/kernel/kernel_flow.h"
#include "watchctl/session/session.h"

struct flow_recording;

struct flow_recording_ask {
	struct kernel_flow_ask kernel;
	const char *log;   /* is created */
	uint64_t ring;	   /* as of flow_writer_open() */
	char *const *argv; /* a program to start, which ends the recording when it ends; NULL */
	uint64_t
		stacks_ns; /* stacks of waits that last so long: of kernel.pid and the program, or of all; 0: none */
	char *const *attached; /* absolute paths of logs of the same time, see flow_attached.h */
	size_t nattached;
	bool only_program; /* system calls' returns of it and its children alone; @kernel.scope is FLOW_SCOPE_PROCESSES then */
};

/* Nothing is left behind after an error. The program has been started, and does not run yet. */
struct wc_error *flow_recording_open(const struct flow_recording_ask *ask, struct flow_recording **ret);

/* A list of all that this kernel cannot tell; NULL: nothing. */
const char *flow_recording_missing(const struct flow_recording *r);

/* Events are recorded from now on, and the program runs. */
struct wc_error *flow_recording_start(struct flow_recording *r);

/* Until a limit, or until the program ends; without one, until the processes have that were asked for. */
struct wc_error *flow_recording_run(struct flow_recording *r, const struct session_limits *limits,
				    enum session_end *ret);

struct flow_recording_counts {
	uint64_t events, bytes;
	uint64_t lost;	 /* found no room, and are counted in the log where they are missing */
	uint64_t missed; /* not given by the kernel, for it was at work for us on that CPU already */
	uint64_t duration_ns;
	unsigned int cpus;
	int program_status; /* as of waitpid(2); -1: none ended */
};

/* All that was recorded is in the log. Frees in any case. WC_ELOG. */
struct wc_error *flow_recording_close(struct flow_recording *r, struct flow_recording_counts *ret);

/* It came to nothing: the log is removed. Accepts NULL; frees. */
void flow_recording_discard(struct flow_recording *r);

#endif
