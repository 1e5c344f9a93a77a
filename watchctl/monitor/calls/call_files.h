/* call_files - calls of a process's threads as they go into LOG/calls.N, a file for each thread (trace/calls/call_writer.h). */
#ifndef WATCHCTL_MONITOR_CALLS_CALL_FILES_H
#define WATCHCTL_MONITOR_CALLS_CALL_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/event.h"

struct call_files;

/* @log: a log that is being written, whose events tell the functions before they are called. WC_ELOG. */
struct wc_error *call_files_open(const char *log, pid_t pid, struct call_files **ret);

/* Of @c: tid, call (not 0), function, the flags CALL_TAIL and CALL_SIGNAL, values. Values of more than CALL_BESIDES_MAX are left out. */
struct wc_error *call_files_enter(struct call_files *f, const struct call_event *c, uint64_t time_ns);

/* Of @r: tid, call, function, how, values, error. The call need not be the innermost one: calls on another stack stay open. */
struct wc_error *call_files_end(struct call_files *f, const struct return_event *r, uint64_t time_ns);

/* Every half second or so: what was put so far is in the log. WC_ELOG, once of each thread. */
struct wc_error *call_files_flush(struct call_files *f);

/* The thread has ended. */
struct wc_error *call_files_end_thread(struct call_files *f, pid_t tid);

/* Flushes and frees in any case. Accepts NULL. */
struct wc_error *call_files_close(struct call_files *f);

#endif
