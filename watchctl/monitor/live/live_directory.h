/* live_directory - the directory for the log of a live session that nobody wants to keep. */
#ifndef WATCHCTL_MONITOR_LIVE_LIVE_DIRECTORY_H
#define WATCHCTL_MONITOR_LIVE_LIVE_DIRECTORY_H

#include <stdint.h>

#include "watchctl/base/error.h"

/*
 * The name of one that is not there yet, in $XDG_RUNTIME_DIR, $TMPDIR or /tmp: the first of them that has
 * @bytes left, else the first in which it can be made. *@ret is the caller's.
 */
struct wc_error *live_directory_choose(uint64_t bytes, char **ret);

/* Only its user can enter it. */
struct wc_error *live_directory_make(const char *path);

/* With all that is in it. */
void live_directory_remove(const char *path);

#endif
