/* step_from_watch - a range from a watch log: the function that its accesses have in common. */
#ifndef WATCHCTL_CLI_REQUEST_STEP_FROM_WATCH_H
#define WATCHCTL_CLI_REQUEST_STEP_FROM_WATCH_H

#include "watchctl/base/error.h"

/*
 * The innermost function, of no low-level library, that called (directly or not) every function that made an
 * access recorded in the log at @path; if there is none, that made them all. *@ret is malloc'd. WC_ENAME: the
 * accesses have none in common, or the log has no names or no accesses.
 */
struct wc_error *step_from_watch(const char *path, char **ret);

#endif
