/*
 * step_worker - watchctl-step: the program that is linked with LLDB, which `watchctl step` and `watchctl trace --args` run in their place.
 * Loading LLDB takes longer than most commands do altogether.
 */
#ifndef WATCHCTL_CLI_REQUEST_STEP_WORKER_H
#define WATCHCTL_CLI_REQUEST_STEP_WORKER_H

#include "watchctl/base/error.h"

#define STEP_WORKER "watchctl-step"
#define STEP_WORKER_TRACES "watchctl-trace" /* its argv[0] when it is `watchctl trace` */

/*
 * Executes it, as @name, with the arguments behind argv[0]. Returns only with an error: WC_ENOTSUP, @command needs it, and LLDB or the
 * program is not there.
 */
struct wc_error *step_worker_run(const char *command, const char *name, char **argv);

#endif
