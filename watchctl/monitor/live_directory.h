/* live_directory - the directory for the log of a live session that nobody wants to keep. */
#ifndef WATCHCTL_MONITOR_LIVE_DIRECTORY_H
#define WATCHCTL_MONITOR_LIVE_DIRECTORY_H

#include <stdint.h>

#include "watchctl/base/error.h"

/*
 * A new one that only its user can enter, in $XDG_RUNTIME_DIR, $TMPDIR or /tmp: the first of them that has
 * @bytes left, else the first in which it can be made. *@ret is the caller's.
 */
struct wc_error *live_directory_make(uint64_t bytes, char **ret);

/* With all that is in it. */
void live_directory_remove(const char *path);

#endif
