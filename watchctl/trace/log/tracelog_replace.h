/*
 * tracelog_replace - a new log in place of an old one. The old one is set aside under a hidden name until the new one
 * is there to stay; a recording that comes to nothing leaves it as it was.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_REPLACE_H
#define WATCHCTL_TRACE_LOG_TRACELOG_REPLACE_H

#include <stdbool.h>

#include "watchctl/base/error.h"

struct tracelog_old;

/*
 * Makes room for a new log @path. *@ret is NULL when there was nothing. WC_ELOG: what is there is not replaced:
 * without @force, because it is no log of ours, or because somebody records into it.
 */
struct wc_error *tracelog_set_aside(const char *path, bool force, struct tracelog_old **ret);

/* Under its old name again, which is free. Accepts NULL; frees. */
void tracelog_put_back(struct tracelog_old *old);

/* Removes it; what in its directory is not ours stays there, under the hidden name. Accepts NULL; frees. */
void tracelog_drop_old(struct tracelog_old *old);

#endif
