/*
 * exec_watch - notices at once that a process runs another program now: a perf event that counts nothing
 * stands on its main thread, and the kernel takes it away in execve(2). Needs perf events to be permitted.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_EXEC_WATCH_H
#define WATCHCTL_ENGINE_INTAKE_EXEC_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "watchctl/session/source.h"

struct exec_watch {
	pid_t pid;
	int fd; /* becomes readable (POLLHUP) when it is time to ask; -1: it will not */
	void *ring;
	bool leader_ended; /* the main thread alone has ended: an exec would bring it back */
};

/* False: not permitted (errno). */
bool exec_watch_open(struct exec_watch *w, pid_t pid);
void exec_watch_close(struct exec_watch *w); /* accepts one that could not be opened */

/* Whether the process, which lives, has executed another program since. */
bool exec_watch_execed(struct exec_watch *w);

/* Whether the process of @pidfd has ended (SESSION_EXITED) or executed another program since (SESSION_EXECED). */
bool exec_watch_is_over(struct exec_watch *w, int pidfd, enum session_end *ret);

#endif
