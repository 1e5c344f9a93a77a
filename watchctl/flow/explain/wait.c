#include "watchctl/flow/explain/wait.h"

#include <stdio.h>
#include <stdlib.h>

#include "watchctl/base/vec.h"

bool wait_add(struct wait *w, pid_t pid, pid_t tid, bool guessed, const char *why)
{
	struct waited new = { .pid = pid, .tid = tid, .guessed = guessed };

	for (size_t i = 0; i < w->n; i++)
		if (w->whom[i].pid == pid && w->whom[i].tid == tid)
			return true;
	snprintf(new.why, sizeof(new.why), "%s", why);
	return vec_push(w->whom, w->n, w->cap, new);
}

void wait_deinit(struct wait *w)
{
	free(w->whom);
	*w = (struct wait){ 0 };
}
