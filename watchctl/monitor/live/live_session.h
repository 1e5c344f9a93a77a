/* live_session - the process of a live session: what it does from its first instruction to its last. */
#ifndef WATCHCTL_MONITOR_LIVE_LIVE_SESSION_H
#define WATCHCTL_MONITOR_LIVE_LIVE_SESSION_H

#include <stdbool.h>

/*
 * The word that makes a program that uses live.h be such a process: live_start() executes /proc/self/exe with
 * it. So main() begins with
 *
 *	if (live_session_asked(argc, argv))
 *		return live_session_main();
 */
#define LIVE_SESSION_WORD "live-session"

bool live_session_asked(int argc, char *const argv[]);

/* Returns the exit status. */
int live_session_main(void);

#endif
