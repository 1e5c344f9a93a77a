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

/* @flags: CALL_TAIL, CALL_SIGNAL. @call is not 0. */
struct wc_error *call_files_enter(struct call_files *f, pid_t tid, uint64_t call, uint32_t function,
				  uint8_t flags, uint64_t time_ns);

/* @call, which need not be the innermost one: calls on another stack stay open. */
struct wc_error *call_files_end(struct call_files *f, pid_t tid, uint64_t call, uint32_t function,
				enum return_how how, uint64_t time_ns);

/* Every half second or so: what was put so far is in the log. WC_ELOG, once of each thread. */
struct wc_error *call_files_flush(struct call_files *f);

/* The thread has ended. */
struct wc_error *call_files_end_thread(struct call_files *f, pid_t tid);

/* Flushes and frees in any case. Accepts NULL. */
struct wc_error *call_files_close(struct call_files *f);

#endif
