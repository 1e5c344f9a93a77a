/*
 * own_modules - the modules of this process, reported to a log as they come and go.
 *
 * Not async-signal-safe: for the thread of a log session only.
 */
#ifndef STACKWALK_OWN_MODULES_H
#define STACKWALK_OWN_MODULES_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/trace/event.h"

struct own_modules {
	struct module *v;
	size_t n, cap;
	unsigned long long adds, subs; /* the loader's, at the last look */
};

/*
 * Looks again, when the loader has loaded or unloaded something since; reports to @sink what is new and what is
 * gone. *changed: whether there was anything; written in any case.
 */
struct wc_error *own_modules_refresh(struct own_modules *m, struct event_sink sink, uint64_t now_ns,
				     bool *changed);

/* Accepts zero-initialised. */
void own_modules_deinit(struct own_modules *m);

#endif
