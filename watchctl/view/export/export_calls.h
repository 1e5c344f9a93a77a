/*
 * export_calls - the calls that are open in each thread, for formats in which they must nest: a call or a
 * return that is not there (lost, left out, damage) never leaves one open under another.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_CALLS_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_CALLS_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"

struct export_open_call {
	uint64_t call;
	const struct view_function *function;
};

struct export_thread {
	int32_t pid, tid;
	struct export_open_call *open; /* outermost first */
	size_t nopen, cap;
	uint64_t last_ns; /* of what was reported of its calls: times in a file must not go back */
	void *user;	  /* the format's own; freed with it */
};

/* Zero-initialised is empty. */
struct export_threads {
	struct map64 by_key;
	struct export_thread **v; /* in the order in which they were first seen */
	size_t n, cap;
	size_t nopen; /* calls, of all threads */
};

/* NULL: no memory. */
struct export_thread *export_thread_get(struct export_threads *t, int32_t pid, int32_t tid);

/* How many of the open calls end, at the latest, because @c begins: the innermost ones. */
size_t export_calls_ended_by(const struct export_thread *th, const struct view_call *c);

/* How many end with the call @number, itself included; 0: it is not open. */
size_t export_calls_ended_with(const struct export_thread *th, uint64_t number);

/* The innermost one goes; there must be one. */
void export_calls_pop(struct export_threads *t, struct export_thread *th);

/* False: no memory. */
bool export_calls_push(struct export_threads *t, struct export_thread *th, const struct view_call *c);

/* @time_ns, or what was reported last if that is later; remembered. */
uint64_t export_thread_time(struct export_thread *th, uint64_t time_ns);

/* The names of at most @max open calls as a stack in *@buf, innermost first. NULL: no memory. */
const struct view_frame *export_calls_frames(const struct export_thread *th, size_t max,
					     struct view_frame **buf, size_t *cap);

void export_threads_deinit(struct export_threads *t);

#endif
