/*
 * own_log - the log of the process it is in, but for the files of its threads: the process, its threads and functions,
 * notes and losses. The program may close its descriptors and use their numbers: before anything is written they are
 * looked at, and opened again. Ordinary code, that allocates; used by one thread at a time.
 */
#ifndef CALLTRACE_RUNTIME_OWN_LOG_H
#define CALLTRACE_RUNTIME_OWN_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "calltrace/abi.h"
#include "calltrace/runtime/call_output.h"
#include "watchctl/base/error.h"

struct own_log;

/*
 * The path that CALLTRACE_OUTPUT @text names, absolute; @number: of the log in this process. WC_EUSAGE: it has an unknown
 * %, or is too long.
 */
struct wc_error *own_log_path(const char *text, uint32_t number, char *ret, size_t cap);

/* Makes the log @place->path, which begins with the process and its first thread; fills the rest of @place. */
struct wc_error *own_log_open(struct output_place *place, struct own_log **ret);

/* The functions [@begin, @end), numbered from @base. */
struct wc_error *own_log_put_functions(struct own_log *l, const struct calltrace_function *begin,
				       const struct calltrace_function *end, uint32_t base);

/* A type of the program's own events. */
struct wc_error *own_log_put_event_type(struct own_log *l, uint32_t type, const char *name,
					const char *format);

/* @comm: its name, if the system does not know a newer one. */
struct wc_error *own_log_put_thread(struct own_log *l, pid_t tid, const char *comm);

struct wc_error *own_log_put_note(struct own_log *l, const char *text);

/* @count: events that were discarded. */
struct wc_error *own_log_put_lost(struct own_log *l, uint64_t count);

struct wc_error *own_log_flush(struct own_log *l);

/* Completes and frees it, in any case. */
struct wc_error *own_log_close(struct own_log *l);

/* Removes it, and frees. */
void own_log_discard(struct own_log *l);

/* Frees it, and leaves what is in its files, like those of a program that was killed. */
void own_log_give_up(struct own_log *l);

/*
 * In a copy of the process: closes its descriptors and leaves everything else, which another thread of the parent's may
 * have been changing. Async-signal-safe. Accepts NULL.
 */
void own_log_forget(struct own_log *l);

/* The module that @record lies in: a path, or "" if it is unknown. For sentences. */
void own_log_module_name(const void *record, char *ret, size_t cap);

#endif
