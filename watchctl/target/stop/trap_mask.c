#include "watchctl/target/stop/trap_mask.h"

#include <sys/ptrace.h>

#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"

/*
 * A mask that lacks just SIGTRAP may be the thread's own doing: it was last seen inside the program's SIGTRAP
 * handler, say. To block it then would have the kernel drop that handler at the program's next int3. A
 * handler that is still there shows that: with SIGTRAP blocked, the hit would have removed it; unless it has been given
 * back since, for another thread.
 */
bool trap_mask_restore(pid_t pid, pid_t tid, bool given_back, uint64_t *mask)
{
	struct proc_status s;
	uint64_t now;

	if (!*mask || held_ptrace(PTRACE_GETSIGMASK, tid, sizeof(now), &now))
		return false;
	if ((now | PROC_SIGTRAP) != *mask || !proc_status_read(pid, tid, &s) ||
	    ((s.caught & PROC_SIGTRAP) && !given_back)) {
		*mask = 0;
		return false;
	}
	return !held_ptrace(PTRACE_SETSIGMASK, tid, sizeof(*mask), mask);
}
