/* step_start - what a program was started with, as inputs: its arguments, environment and working directory. */
#ifndef WATCHCTL_STEP_MODEL_STEP_START_H
#define WATCHCTL_STEP_MODEL_STEP_START_H

#include <sys/types.h>

#include "watchctl/trace/event.h"

/* What cannot be read is not reported. */
struct wc_error *step_start_report(pid_t pid, uint64_t time_ns, struct event_sink sink);

#endif
