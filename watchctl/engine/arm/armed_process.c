#include "watchctl/engine/arm/armed_process.h"

#include <stddef.h>

struct wc_error *armed_process_check(const struct armed_process *p, pid_t pid)
{
	if (!p->is_meant || p->is_meant(p->ctx))
		return NULL;
	return wc_error_new(
		WC_ETARGET,
		"process %d can no longer be watched: it executes another program, has unmapped the "
		"handler, or cannot be inspected",
		pid);
}
