/*
 * told_modules - lets each module event through once, where several look at the modules of one process: an
 * engine, and who collects captures.
 */
#ifndef WATCHCTL_MONITOR_TOLD_MODULES_H
#define WATCHCTL_MONITOR_TOLD_MODULES_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/trace/event.h"

/* Zero-initialised is empty. */
struct told_modules {
	struct told_module *v; /* those that are loaded, as far as told */
	size_t n, cap;
};

/* Whether @e, of type EVENT_MODULE or _GONE, says something new. False in *ok: no memory. */
bool told_modules_is_news(struct told_modules *t, const struct trace_event *e, bool *ok);

/* Another program: nothing is loaded. */
void told_modules_deinit(struct told_modules *t);

#endif
