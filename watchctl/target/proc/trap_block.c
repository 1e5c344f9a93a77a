/*
 * C libraries block all signals for a moment while they make a thread, and the new thread begins with that
 * mask. It includes the two signals that they keep for themselves: sigprocmask() leaves those out, so a
 * thread that blocks them is likely to be in such a moment, which lasts longer where the CPUs are busy.
 */
#include "watchctl/target/proc/trap_block.h"

#include <time.h>

#include "watchctl/target/proc/proc.h"

#define LOOK_NS 2000000
#define LOOKS 6		/* for which a thread blocks it before it counts */
#define LOOKS_OF_ALL 50 /* ... where it blocks the C library's own signals, too */

#define LIBRARY_SIGNALS (3ull << 31) /* 32 and 33 */

bool trap_block_is_librarys(uint64_t blocked)
{
	return (blocked & LIBRARY_SIGNALS) == LIBRARY_SIGNALS;
}

static unsigned int looks_needed(uint64_t blocked)
{
	return trap_block_is_librarys(blocked) ? LOOKS_OF_ALL : LOOKS;
}

/* Keeps those that still block it. True: one of them has for long enough. */
static bool trap_block_look(pid_t pid, struct thread_ids *ids, unsigned int looks)
{
	struct proc_status s;
	size_t i, n = 0;

	for (i = 0; i < ids->n; i++) {
		if (!proc_status_read(pid, ids->v[i], &s) || !(s.blocked & PROC_SIGTRAP))
			continue;
		if (looks >= looks_needed(s.blocked))
			return true;
		ids->v[n++] = ids->v[i];
	}
	ids->n = n;
	return false;
}

bool trap_is_blocked(pid_t pid)
{
	struct thread_ids ids = { 0 };
	unsigned int looks = 1;
	bool blocked;

	if (!proc_threads(pid, &ids))
		return false;
	while (!(blocked = trap_block_look(pid, &ids, looks)) && ids.n) {
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
		looks++;
	}
	thread_ids_deinit(&ids);
	return blocked;
}
