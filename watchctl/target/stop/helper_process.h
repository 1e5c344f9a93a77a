/*
 * helper_process - the setup of helper processes that trace for us: they become hard to kill by
 * mistake, and close everything of the process that they were forked from.
 */
#ifndef WATCHCTL_TARGET_STOP_HELPER_PROCESS_H
#define WATCHCTL_TARGET_STOP_HELPER_PROCESS_H

#include <stdbool.h>

/* Where helper_withdraw() leaves the files that are kept. */
#define HELPER_OWNER_FD 3  /* a pidfd */
#define HELPER_MEMORY_FD 4 /* by which `watchctl list` finds us */

/*
 * A session of its own: no terminal's signals, no kill of the group. Standard streams on /dev/null, and every
 * other file closed: who waits for the end of the owner's output must not wait for us. False: they cannot be
 * kept; errno says why.
 */
bool helper_withdraw(int owner_fd, int memory_fd);

/* What asks politely is not obeyed: SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, the terminal's stops. */
void helper_ignore_signals(void);

/* The last to go when memory runs out, where that is permitted. */
void helper_spare(void);

/*
 * Another name and command line than the owner's: who kills all of watchctl by name does not mean this one.
 * @comm: up to 15 characters; @line is cut to the room that there is.
 */
void helper_rename(const char *comm, const char *line);

#endif
