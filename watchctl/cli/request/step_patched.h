/* step_patched - `watchctl step --stepper patch`: the functions record themselves, as those of `watchctl trace` do. */
#ifndef WATCHCTL_CLI_REQUEST_STEP_PATCHED_H
#define WATCHCTL_CLI_REQUEST_STEP_PATCHED_H

#include "watchctl/cli/output/output.h"
#include "watchctl/cli/request/step_options.h"

/* @c: with the planner and the limits. @started(@ctx): as of step_request. */
struct wc_error *step_patched_run(struct step_command *c, struct output *output);

#endif
