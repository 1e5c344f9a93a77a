/*
 * watch_home - the module that a watched address was in when it was armed. When that is unloaded the debug
 * register stays where it is: what comes there is not the variable any more, which somebody must be reported.
 */
#ifndef WATCHCTL_ENGINE_PLAN_WATCH_HOME_H
#define WATCHCTL_ENGINE_PLAN_WATCH_HOME_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/code/elf/module.h"
#include "watchctl/engine/plan/watchpoint.h"

/* Its path, to be freed. NULL: @w is in none, is no watch of an address of its own, or there is no memory. */
char *watch_home(const struct module_list *modules, const struct watchpoint *w);

/* True: another module, or none, is there now; *home is freed and NULL, and @text says so. Accepts NULL in
 * *home. */
bool watch_home_is_gone(const struct module_list *modules, const struct watchpoint *w, char **home,
			char *text, size_t len);

#endif
