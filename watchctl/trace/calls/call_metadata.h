/* call_metadata - the metadata of a log say what is in its files calls.N. */
#ifndef WATCHCTL_TRACE_CALLS_CALL_METADATA_H
#define WATCHCTL_TRACE_CALLS_CALL_METADATA_H

#include "watchctl/base/error.h"
#include "watchctl/trace/log/tracelog_format.h"

/*
 * Describes the stream of calls in the metadata of the log @path, unless they do that already. @dir: its directory.
 * *@ret: whose files they must be. WC_ELOG: no log of ours, or it cannot be written to.
 */
struct wc_error *call_metadata_describe(int dir, const char *path, struct tracelog_identity *ret);

#endif
