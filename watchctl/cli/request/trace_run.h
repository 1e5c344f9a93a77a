/* trace_run - `watchctl trace`, in the program that the user has called, or in watchctl-step, which knows types. */
#ifndef WATCHCTL_CLI_REQUEST_TRACE_RUN_H
#define WATCHCTL_CLI_REQUEST_TRACE_RUN_H

#include "watchctl/step/model/planner.h"

/* As struct command's run. @planner: says what parameters and results are, with --args. */
struct wc_error *trace_run_typed(int argc, char **argv, const struct planner_ops *planner);

#endif
