#include "watchctl/target/stop/dispatch.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/ptrace.h>

#include "watchctl/base/task.h"
#include "watchctl/base/urgent.h"
#include "watchctl/target/proc/proc.h"

#define GET_DISPATCH 0x4211 /* PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, since Linux 6.4 */
#define SIGSYS_BIT (1ull << 30)
#define STOP_TIMEOUT_MS 200u
#define ALLOW 0 /* SYSCALL_DISPATCH_FILTER_ALLOW */

/* The kernel's struct ptrace_sud_config. */
struct dispatch {
	uint64_t mode; /* 0: off */
	uint64_t selector, offset, len;
};

static bool dispatch_read(pid_t tid, struct dispatch *ret)
{
	return !ptrace(GET_DISPATCH, tid, sizeof(*ret), ret) && ret->mode;
}

bool dispatch_bars(const struct tracee *t)
{
	struct dispatch d = { 0 };
	uint8_t byte;

	if (!dispatch_read(t->tid, &d))
		return false;
	return !d.selector || proc_read_some(t->pid, d.selector, &byte, 1) != 1 || byte != ALLOW;
}

bool dispatch_is_possible(pid_t pid)
{
	struct proc_status s;

	return proc_status_read(pid, task_with_memory(pid), &s) && (s.caught & SIGSYS_BIT);
}

static bool is_dispatched(pid_t pid, pid_t tid)
{
	struct dispatch d = { 0 };
	struct urgent urgent = { 0 };
	struct tracee t;
	bool on = false;

	urgent_begin(&urgent);
	if (tracee_stop(pid, tid, STOP_TIMEOUT_MS, &t) == TRACEE_STOPPED) {
		on = dispatch_read(tid, &d);
		tracee_release(&t);
	}
	urgent_end(&urgent);
	return on;
}

pid_t dispatch_find(pid_t pid)
{
	struct thread_ids ids = { 0 };
	pid_t found = 0;
	size_t i;

	if (!dispatch_is_possible(pid) || !proc_threads(pid, &ids))
		return 0;
	for (i = 0; i < ids.n && !found; i++)
		if (!proc_is_ending(pid, ids.v[i]) && is_dispatched(pid, ids.v[i]))
			found = ids.v[i];
	thread_ids_deinit(&ids);
	return found;
}
