/*
 * untraced - `watchctl trace --untraced`: which of the chosen functions cannot be traced, or have ends that are not seen, and why. As text by
 * reason, or as JSON objects; into the log as notes, UNTRACED_NOTES at most.
 */
#ifndef WATCHCTL_CLI_TRACE_UNTRACED_H
#define WATCHCTL_CLI_TRACE_UNTRACED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "watchctl/monitor/calls/call_trace.h"
#include "watchctl/monitor/recorder.h"

#define UNTRACED_NOTES 100u

struct untraced_list {
	FILE *out; /* the caller's, as @log */
	bool json;
	struct recorder *log; /* NULL: none */
	/* Zero at first: */
	bool told;    /* once at least */
	size_t next;  /* the first that call_trace_untraced() has not given */
	size_t noted; /* notes in the log */
};

/*
 * Those that were not told yet. The first time, text says so if there are none. wc_enomem, or why the log cannot be written. Write errors of
 * @l->out are left to ferror().
 */
struct wc_error *untraced_tell(struct untraced_list *l, const struct call_trace *t);

#endif
