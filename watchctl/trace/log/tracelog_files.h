/*
 * tracelog_files - the files of a log beside its metadata, by name, and the mark of whoever records it.
 *
 * LOG/.recorder is there while somebody records, and locked by him (an open file description lock, which goes
 * with the process, however that ends). It says until when everything that happened is in the files.
 */
#ifndef WATCHCTL_TRACE_LOG_TRACELOG_FILES_H
#define WATCHCTL_TRACE_LOG_TRACELOG_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

#define TRACELOG_PLAIN "events"
#define TRACELOG_CALLS "calls." /* and a number: of a thread (watchctl/trace/calls/) */
#define TRACELOG_FLOW "flow."	/* a generation, and a CPU: the system's events (watchctl/trace/flow/) */
#define TRACELOG_RECORDER ".recorder"
#define TRACELOG_NAME_MAX 32

/* "events.0000000007" */
void tracelog_file_name(uint64_t number, char name[TRACELOG_NAME_MAX]);

/* False: @name is not that of a flight recorder's file. */
bool tracelog_file_number(const char *name, uint64_t *ret);

/*
 * The numbers of the files of a flight recorder in the directory @dir, ascending; *@ret is malloced, the
 * caller's. None: NULL and 0, which is what a plain log has.
 */
struct wc_error *tracelog_file_numbers(int dir, uint64_t **ret, size_t *n);

/* Whether @name is that of a thread's calls. */
bool tracelog_is_calls(const char *name);

/* Whether @name is that of a CPU's events, or of the names that belong to them. */
bool tracelog_is_flow(const char *name);

/* Whether @name is one of either: their packets are at the same place in a file, and have their length there. */
bool tracelog_is_beside(const char *name);

/* Whether there is one in @dir: the log need not have other events. */
bool tracelog_has_flow(int dir);

/* Removes all files of calls and of the system's events in @dir. */
void tracelog_beside_remove(int dir);

/* Creates @name, for its owner alone. -1: errno. */
int tracelog_file_create(int dir, const char *name);

/* Begins to record: creates and locks the mark. -1: errno. */
int tracelog_mark_create(int dir);

/* All that happened before @time_ns (CLOCK_MONOTONIC) is in the files. What fails leaves the old time. */
void tracelog_mark_flushed(int fd, uint64_t time_ns);

/* True if there is a mark in @dir: a recorder is at work, or was killed. */
bool tracelog_mark_exists(int dir);

/* True if a process holds the mark in @dir; *@flushed_ns, unless NULL, is the time in it, 0 if that is
 * unknown. */
bool tracelog_mark_held(int dir, uint64_t *flushed_ns);

#endif
