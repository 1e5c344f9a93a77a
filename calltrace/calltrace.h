/*
 * calltrace - what a program that was built with the call tracer can say to it. Link libcalltrace; without a log all of
 * this does nothing. See libcalltrace(3).
 *
 *	CALLTRACE_OUTPUT=PATH	the log to make. In PATH %p is the process's number, %n the log's in the process, from
 *				0, %e the program's name, %% a %
 *	CALLTRACE_ENABLE=0	record nothing until calltrace_enable(); 1: record, however the program was built
 *
 * Thread safe; not to be called from signal handlers, but for calltrace_event(). Negative results are -errno.
 */
#ifndef CALLTRACE_CALLTRACE_H
#define CALLTRACE_CALLTRACE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Begins a log, unless there is one: 0. CALLTRACE_OUTPUT and CALLTRACE_ENABLE are read again. -ENOENT: no output is named,
 * or the process is at its end; -EEXIST: its path exists; -EINVAL: it, or CALLTRACE_RING, makes no sense; -ENOTSUP: the C
 * library or a child that was not made by fork(); others: it cannot be made, -EIO where no more is known. A sentence on
 * standard error says more, but for -ENOENT and -ENOTSUP of a child.
 *
 * In a child of fork(), which does not record, it begins a log of the child's own.
 */
int calltrace_initialize(void);

/*
 * Writes and closes the log: calls that are open end, for it. What is recorded after that is in no log, until
 * calltrace_initialize(). 0, -ENOENT: there is no log, or what could not be written.
 */
int calltrace_deinitialize(void);

/* Records from now on, in all threads. 0, or -ENOENT: there is no log. */
int calltrace_enable(void);

/* Records no more, until calltrace_enable(). Calls that are open then end, for the log, when they are found gone. */
void calltrace_disable(void);

/* 1 while entries and exits are recorded, else 0. */
int calltrace_enabled(void);

/*
 * Hands all that was recorded so far, by any thread, to the kernel: a crash cannot lose it any more. 0 or a negative
 * errno, -ENOENT: there is no log.
 */
int calltrace_flush(void);

/*
 * Forgets what was recorded and is not in the log yet; a note in the log says so. Calls that are open end, for the log.
 * 0, -ENOENT: there is no log.
 */
int calltrace_clear(void);

/*
 * Names a type of the program's own events: a number >= 0, in this process the same for the same name and format.
 * @format shows the two payloads of each as printf() would, as integers of 64 bits; NULL: "%lu %lu". Both strings are
 * copied. Works without a log, too; begins the one that CALLTRACE_OUTPUT names, as the first module does. -EINVAL:
 * there is no name, or one of the strings has more than 255 bytes; -ENOSPC: there are 1024 types.
 */
int calltrace_event_type(const char *name, const char *format);

/*
 * Records an event of @type, at any time: async-signal-safe. While nothing is recorded, and of a @type that is none, it
 * does nothing.
 */
void calltrace_event(int type, uint64_t first, uint64_t second);

/*
 * Calls @each for the closed logs that CALLTRACE_OUTPUT may have made, as it is now: %p and %n in it are any number. Not
 * for one that is being written, in whatever process. @bytes: of its files; @modified_s: when the last of them was, in
 * seconds since 1970. The first result of @each that is not 0 ends it, and is returned. Otherwise 0, -ENOENT: there is no
 * CALLTRACE_OUTPUT, -EINVAL: it makes no sense, -ENOMEM and the like. @each may call all of this.
 */
int calltrace_logs(int (*each)(const char *path, uint64_t bytes, int64_t modified_s, void *ctx), void *ctx);

/*
 * Deletes those of them that were last modified more than @seconds ago, but none in whose directory there is anything that
 * belongs to no log. Returns how many, or as calltrace_logs(); the errno of one that cannot be deleted comes after the
 * others have been.
 */
int calltrace_delete_logs_older_than(int64_t seconds);

#ifdef __cplusplus
}
#endif

#endif
