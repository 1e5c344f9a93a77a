#include "watchctl/engine/plan/watch_home.h"

#include <inttypes.h>
#include <stdio.h>

#include "watchctl/code/elf/module_report.h"

bool watch_home_look(struct watch_home *h, const struct module_list *modules, const struct watchpoint *w,
		     char *text, size_t len)
{
	const struct module *m = w->hook || w->address ? NULL : module_find(modules, w->addr);
	bool was_gone = h->gone;

	if (!h->module.path) {
		if (m && !module_copy(m, &h->module))
			h->module = (struct module){ 0 };
		return false;
	}
	h->gone = !m || !module_is_same_place(m, &h->module);
	if (h->gone == was_gone)
		return false;
	if (h->gone)
		snprintf(
			text, len,
			"%s has been unloaded: its variable at 0x%" PRIx64
			" no longer exists, and hits of this watch are accesses to other data until it is loaded "
			"there again",
			h->module.path, w->want_addr);
	else
		snprintf(text, len,
			 "%s has been loaded at the same place again: hits of this watch are accesses to its "
			 "variable at 0x%" PRIx64,
			 h->module.path, w->want_addr);
	return true;
}

void watch_home_deinit(struct watch_home *h)
{
	module_deinit(&h->module);
	*h = (struct watch_home){ 0 };
}
