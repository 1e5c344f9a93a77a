/*
 * Who runs in whose memory: reported by kcmp(2).
 */
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/base/vec.h"
#include "watchctl/target/proc/proc.h"

/* One that has ended has no memory, and would be alike to all kernel threads: @a is a thread that has not. */
static int proc_sharing_compare(pid_t a, pid_t b, int type)
{
	return (int)syscall(SYS_kcmp, a, b, type, 0, 0);
}

enum proc_sharing proc_shares_memory(pid_t a, pid_t b)
{
	int r = proc_sharing_compare(task_with_memory(a), b, KCMP_VM);

	if (r < 0)
		return errno == ESRCH ? PROC_SEPARATE : PROC_UNKNOWN;
	return r ? PROC_SEPARATE : PROC_SHARED;
}

bool proc_shares_actions(pid_t a, pid_t b)
{
	return !proc_sharing_compare(task_with_memory(a), b, KCMP_SIGHAND);
}

struct sharer_search {
	pid_t pid, task;
	struct thread_ids found;
};

static bool is_sharer(void *ctx, pid_t pid)
{
	struct sharer_search *s = ctx;

	if (pid != s->pid && !proc_sharing_compare(s->task, pid, KCMP_VM))
		vec_push(s->found.v, s->found.n, s->found.cap, pid);
	return true;
}

void proc_sharers(pid_t pid, struct thread_ids *ret)
{
	struct sharer_search s = { .pid = pid, .task = task_with_memory(pid) };

	proc_each(is_sharer, &s);
	*ret = s.found;
}

bool proc_shares_with_any(pid_t pid, const struct thread_ids *others)
{
	const pid_t task = task_with_memory(pid);
	size_t i;

	for (i = 0; i < others->n; i++)
		if (others->v[i] != pid && !proc_sharing_compare(task, others->v[i], KCMP_VM))
			return true;
	return false;
}

/* The kernel's list of them is for a thread (CONFIG_PROC_CHILDREN). */
static bool thread_made_sharer(pid_t pid, pid_t tid)
{
	char path[64];
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, tid);
	scoped(fclosep) FILE *f = fopen(path, "re");
	while (f && fscanf(f, "%d", &child) == 1) /* NOLINT(cert-err34-c): the kernel's numbers */
		if (!proc_sharing_compare(tid, child, KCMP_VM))
			return true;
	return !f;
}

bool proc_made_sharer(pid_t pid)
{
	struct thread_ids ids;
	bool made = false;
	size_t i;

	if (!proc_threads(pid, &ids))
		return true;
	for (i = 0; i < ids.n && !made; i++)
		made = thread_made_sharer(pid, ids.v[i]);
	thread_ids_deinit(&ids);
	return made;
}
