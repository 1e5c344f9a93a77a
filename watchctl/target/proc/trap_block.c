/*
 * C libraries block all signals for a moment while they make a thread, and the new thread begins with that
 * mask. It includes the two signals that they keep for themselves: sigprocmask() leaves those out, so a
 * thread that blocks them is likely to be in such a moment, which lasts longer where the CPUs are busy.
 */
#include "watchctl/target/proc/trap_block.h"

#include <sys/syscall.h>
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

/*
 * Meanwhile the kernel takes the signals that are waited for out of the mask that it shows. The first argument is
 * the set (do_sigtimedwait() in kernel/signal.c).
 */
static bool is_wait_for_trap(pid_t pid, long number, uint64_t set)
{
	struct memory_view memory = proc_memory(&pid);
	uint64_t bits;

	return number == SYS_rt_sigtimedwait && memory_read(&memory, set, &bits, sizeof(bits)) &&
	       (bits & PROC_SIGTRAP);
}

static bool waits_for_trap(pid_t pid, pid_t tid)
{
	uint64_t set;
	long number;

	return proc_in_syscall(pid, tid, &number, &set) && is_wait_for_trap(pid, number, set);
}

bool trap_is_blocked_in(pid_t pid, pid_t tid, const struct proc_status *s)
{
	return (s->blocked & PROC_SIGTRAP) || (s->state == 'S' && waits_for_trap(pid, tid));
}

/* Keeps those that still block it. True: one of them has for long enough. */
static bool trap_block_look(pid_t pid, struct thread_ids *ids, unsigned int looks)
{
	struct proc_status s;
	size_t i, n = 0;

	for (i = 0; i < ids->n; i++) {
		if (!proc_status_read(pid, ids->v[i], &s) || !trap_is_blocked_in(pid, ids->v[i], &s))
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

/*
 * Keeps those that may wait for it, and are not seen to: woken by a signal or the time, with no CPU yet, a thread
 * counts as running, and its mask is still shown without the signal.
 */
static pid_t look_for_waiter(pid_t pid, struct thread_ids *ids)
{
	uint64_t set;
	long number;
	size_t i, n = 0;

	for (i = 0; i < ids->n; i++) {
		if (!proc_in_syscall(pid, ids->v[i], &number, &set))
			ids->v[n++] = ids->v[i];
		else if (is_wait_for_trap(pid, number, set))
			return ids->v[i];
	}
	ids->n = n;
	return 0;
}

pid_t trap_find_waiter(pid_t pid)
{
	struct thread_ids ids = { 0 };
	unsigned int looks = 1;
	pid_t found;

	if (!proc_threads(pid, &ids))
		return 0;
	while (!(found = look_for_waiter(pid, &ids)) && ids.n && looks++ < LOOKS)
		nanosleep(&(struct timespec){ .tv_nsec = LOOK_NS }, NULL);
	thread_ids_deinit(&ids);
	return found;
}
