/*
 * core_log - the calls that a dead program had not written yet, from its core into a log, so that all that reads a log
 * reads them: of a flight recorder its rings, of others the last events of each thread.
 *
 * Events become calls by the rules of the runtime, and by its code (open_calls.h). Calls that were open when the oldest
 * event that is left happened, and that the runtime knew of, are entered at its time. Times are as right as the rate of
 * the TSC is known, which a note says if it is worse than a millisecond.
 */
#ifndef WATCHCTL_TRACE_CORE_CORE_LOG_H
#define WATCHCTL_TRACE_CORE_CORE_LOG_H

#include "watchctl/base/error.h"

/* Makes the log @log of the core @core; on an error there may be a part of it. WC_ELOG. */
struct wc_error *core_log_write(const char *core, const char *log);

#endif
