/*
 * Signals of ours that are still on their way when the last watch has been disarmed.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/target/inject/inject_impl.h"
#include "watchctl/target/proc/proc.h"

#define NR_SIGTIMEDWAIT 128
#define TRAP_PERF_CODE 6
#define FLUSH_STOP_MS 200u
#define FLUSH_PATIENCE_NS 3000000000ull

/* As the kernel lays out what a perf event sends (struct trap_info of handler/handler.h). */
#define PERF_DATA_OFFSET 24

static bool is_ours(const struct injection *inj, const siginfo_t *info)
{
	uint64_t cookie, data;

	memcpy(&data, (const char *)info + PERF_DATA_OFFSET, sizeof(data));
	return info->si_signo == SIGTRAP && info->si_code == TRAP_PERF_CODE &&
	       injection_read(inj, offsetof(struct wire_control, cookie), &cookie, sizeof(cookie)) &&
	       (data & ~0xffull) == cookie;
}

/* One of ours waits for the stopped thread @tid alone, as all of ours do. It can be the only SIGTRAP that
 * does. */
static bool has_ours(const struct injection *inj, pid_t tid)
{
	siginfo_t info[TRACEE_QUEUED];
	uint64_t from = 0;
	long n, i;

	while ((n = tracee_queued_from(tid, 0, from, info)) > 0) {
		for (i = 0; i < n; i++)
			if (is_ours(inj, &info[i]))
				return true;
		from += (uint64_t)n;
	}
	return false;
}

/* Takes it from the thread. */
static struct wc_error *take_pending(const struct injection *inj, pid_t tid)
{
	const uint64_t set = PROC_SIGTRAP, zero_time[2] = { 0, 0 };
	uint64_t at = inj->control + BOOT_DATA;
	scoped(remote_closep) struct remote r = { 0 };
	struct wc_error *err = inject_open_stub(inj, tid, &r);
	long result = 0;

	if (err || !has_ours(inj, r.thread.tid))
		return err;
	if (!proc_write(inj->pid, at, &set, 8) || !proc_write(inj->pid, at + 8, zero_time, 16))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", inj->pid);
	return remote_syscall(&r, NR_SIGTIMEDWAIT, at, 0, at + 8, 8, 0, 0, &result);
}

/*
 * A thread that blocks SIGTRAP holds ours back; it would die of it once our handler is gone. False: one of
 * ours may still be there.
 */
static bool take_blocked(struct injection *inj, pid_t tid)
{
	struct wc_error *err = NULL;
	struct proc_status s;

	if (proc_status_read(inj->pid, tid, &s) && (s.pending & s.blocked & PROC_SIGTRAP))
		err = take_pending(inj, tid);
	wc_error_free(err);
	return !err || !proc_status_read(inj->pid, tid, &s);
}

/* One that waits for a child it has made by vfork cannot stop: on a busy machine that takes a while. */
static enum tracee_stop_result stop_patiently(pid_t pid, pid_t tid, uint64_t end, struct tracee *ret)
{
	enum tracee_stop_result r;

	do
		r = tracee_stop(pid, tid, FLUSH_STOP_MS, ret);
	while (r == TRACEE_BUSY && monotonic_ns() < end);
	return r;
}

bool inject_flush(struct injection *inj)
{
	uint64_t end = monotonic_ns() + FLUSH_PATIENCE_NS;
	struct thread_ids ids;
	bool all = true;
	size_t i;

	if (!proc_threads(inj->pid, &ids))
		return true;
	for (i = 0; i < ids.n; i++) {
		struct tracee t;
		enum tracee_stop_result r = stop_patiently(inj->pid, ids.v[i], end, &t);

		if (r == TRACEE_STOPPED)
			tracee_release(&t);
		else if (r != TRACEE_GONE)
			all = false;
		all &= take_blocked(inj, ids.v[i]);
	}
	thread_ids_deinit(&ids);
	return all;
}

bool inject_has_pending(pid_t pid)
{
	struct thread_ids ids;
	struct proc_status s;
	bool pending = false;
	size_t i;

	if (!proc_threads(pid, &ids))
		return false;
	for (i = 0; i < ids.n && !pending; i++)
		pending = proc_status_read(pid, ids.v[i], &s) && (s.pending & ~s.blocked & PROC_SIGTRAP);
	thread_ids_deinit(&ids);
	return pending;
}
