/*
 * watch_home - the module that a watched address was in when it was armed. When that is unloaded the debug register
 * stays where it is: what comes there is not the variable any more, until the module is back at the same place.
 */
#ifndef WATCHCTL_ENGINE_PLAN_WATCH_HOME_H
#define WATCHCTL_ENGINE_PLAN_WATCH_HOME_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/engine/plan/watchpoint.h"

/* Zero-initialised: not known. */
struct watch_home {
	struct module module;
	bool gone;
};

/*
 * Looks at the @modules of now. True: the module of @w has gone since the last call, or has come back, and @text says
 * so. The first call that finds one at the address remembers it; not of hooks, nor of an address that was given.
 */
bool watch_home_look(struct watch_home *h, const struct module_list *modules, const struct watchpoint *w,
		     char *text, size_t len);

void watch_home_deinit(struct watch_home *h);

#endif
