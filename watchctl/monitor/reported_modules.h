/*
 * reported_modules - lets each module event through once, where several look at the modules of one process: an
 * engine, and who collects captures.
 */
#ifndef WATCHCTL_MONITOR_REPORTED_MODULES_H
#define WATCHCTL_MONITOR_REPORTED_MODULES_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/trace/event.h"

/* Zero-initialised is empty. */
struct reported_modules {
	struct reported_module *v; /* those that are loaded, as far as told */
	size_t n, cap;
};

/* Whether @e, of type EVENT_MODULE or _GONE, says something new. False in *ok: no memory. */
bool reported_modules_is_news(struct reported_modules *t, const struct trace_event *e, bool *ok);

/* Another program: nothing is loaded. */
void reported_modules_deinit(struct reported_modules *t);

#endif
