#include "watchctl/engine/plan/watch_home.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *watch_home(const struct module_list *modules, const struct watchpoint *w)
{
	const struct module *m = w->hook || w->address ? NULL : module_find(modules, w->addr);

	return m ? strdup(m->path) : NULL;
}

bool watch_home_is_gone(const struct module_list *modules, const struct watchpoint *w, char **home,
			char *text, size_t len)
{
	const struct module *m;

	if (!*home)
		return false;
	m = module_find(modules, w->addr);
	if (m && !strcmp(m->path, *home))
		return false;
	snprintf(text, len,
		 "%s has been unloaded: its variable at 0x%" PRIx64
		 " no longer exists, and later hits of this watch "
		 "are accesses to other data",
		 *home, w->want_addr);
	free(*home);
	*home = NULL;
	return true;
}
