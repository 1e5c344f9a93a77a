#include "watchctl/target/stop/held.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/ptrace.h>

#include "watchctl/base/task.h"

/* State t of proc_pid_stat(5). */
static bool stands_still(pid_t tid)
{
	char text[1024];
	const char *state = task_stat(tid, 0, text, sizeof(text));

	return state && *state == 't';
}

long held_request(int request, pid_t tid, uintptr_t addr, uintptr_t data)
{
	long r = ptrace((enum __ptrace_request)request, tid, addr, data);

	if (r == -1 && errno == ESRCH) {
		if (stands_still(tid))
			return ptrace((enum __ptrace_request)request, tid, addr, data);
		errno = ESRCH;
	}
	return r;
}
