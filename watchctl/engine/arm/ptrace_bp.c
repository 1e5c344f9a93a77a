#include "watchctl/engine/arm/ptrace_bp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/engine/plan/dregs.h"
#include "watchctl/target/stop/debugreg.h"

#define STOP_TIMEOUT_MS 500
#define NEW_TIMEOUT_MS 2 /* for threads that are born later: they are asked again */

/* A lock on the directory that stands for the process, which ends with whoever holds it. */
struct wc_error *ptrace_bp_claim(pid_t pid, int *ret)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return wc_error_errno(errno == ENOENT ? WC_ETARGET : WC_EFAIL, errno, "cannot open %s", path);
	if (!flock(fd, LOCK_EX | LOCK_NB)) {
		*ret = fd;
		return NULL;
	}
	closep(&fd);
	return wc_error_new(
		WC_ESLOTS,
		"another watchctl has a watch with -i in process %d, and there can be only one, because the kernel "
		"does not report whose register was hit: omit -i",
		pid);
}

/* The thread stands still: what it is now it stays. */
static struct wc_error *set_registers(pid_t tid, const struct ptrace_bp *bp)
{
	struct wc_error *err = armed_process_check(&bp->process, bp->pid);
	unsigned int i;
	uint64_t dr7;

	if (err)
		return err;
	if (!debugreg_read(tid, DEBUGREG_CONTROL, &dr7))
		return wc_error_errno(WC_ENOTSUP, errno, "cannot read the debug registers of thread %d", tid);
	for (i = 0; i < DREGS; i++)
		if (dregs_enabled(dr7, i))
			return wc_error_new(
				WC_ESLOTS,
				"debug register %u of thread %d was set through ptrace by a debugger or an earlier "
				"watchctl, and the kernel does not report whose register was hit: omit -i",
				i, tid);
	dr7 = (dr7 & ~dregs_dr7_mask(bp->slot)) | dregs_dr7(bp->slot, bp->size, bp->access);
	if (debugreg_write(tid, bp->slot, bp->addr) && debugreg_write(tid, DEBUGREG_CONTROL, dr7))
		return NULL;
	if (errno == ENOSPC)
		return wc_error_new(WC_ESLOTS, "no free debug register in thread %d: all four are in use",
				    tid);
	return wc_error_errno(WC_ENOTSUP, errno, "cannot set debug register %u of thread %d to 0x%llx",
			      bp->slot, tid, (unsigned long long)bp->addr);
}

static void clear_registers(pid_t tid, const struct ptrace_bp *bp)
{
	uint64_t dr7;

	if (!debugreg_read(tid, DEBUGREG_CONTROL, &dr7))
		return;
	debugreg_write(tid, DEBUGREG_CONTROL, dr7 & ~dregs_dr7_mask(bp->slot));
	debugreg_write(tid, bp->slot, 0);
}

/* @timeout_ms: for one that cannot stop now, because of a call that nothing interrupts (its vfork, say). */
static struct wc_error *arm_thread(struct ptrace_bp *bp, pid_t tid, struct tracee *held,
				   unsigned int timeout_ms)
{
	struct wc_error *err = NULL;
	struct tracee t;

	if (held && held->tid == tid) {
		err = set_registers(tid, bp);
	} else {
		switch (tracee_stop(bp->pid, tid, timeout_ms, &t)) {
		case TRACEE_STOPPED:
			err = set_registers(tid, bp);
			tracee_release(&t);
			break;
		case TRACEE_GONE:
			return NULL;
		case TRACEE_BUSY:
			if (timeout_ms == NEW_TIMEOUT_MS)
				return NULL; /* in there it runs none of its own code */
			return wc_error_new(
				WC_ENOTSUP,
				"thread %d could not be stopped to set its debug registers: omit -i to arm without a "
				"stop",
				tid);
		default:
			return wc_error_new(
				WC_EPERM,
				"not permitted to set debug registers of thread %d: another tracer "
				"holds it, or it belongs to another user",
				tid);
		}
	}
	if (!err && !vec_push(bp->armed.v, bp->armed.n, bp->armed.cap, tid))
		err = &wc_enomem;
	return err;
}

/* A later thread may have the number of one that ended. */
static void forget_ended(pid_t pid, struct thread_ids *armed, const struct thread_ids *alive)
{
	size_t i, n = 0;

	for (i = 0; i < armed->n; i++)
		if (thread_ids_have(alive, armed->v[i]) || proc_is_thread_of(pid, armed->v[i]))
			armed->v[n++] = armed->v[i];
	armed->n = n;
}

static struct wc_error *arm_new(struct ptrace_bp *bp, struct tracee *held, unsigned int timeout_ms,
				bool *ret_new)
{
	struct wc_error *err = NULL;
	struct thread_ids ids;
	size_t i;

	*ret_new = false;
	if (!proc_threads(bp->pid, &ids))
		return NULL;
	forget_ended(bp->pid, &bp->armed, &ids);
	for (i = 0; i < ids.n && !err; i++) {
		if (thread_ids_have(&bp->armed, ids.v[i]))
			continue;
		err = arm_thread(bp, ids.v[i], held, timeout_ms);
		*ret_new = true;
	}
	thread_ids_deinit(&ids);
	return err;
}

struct wc_error *ptrace_bp_open(const struct ptrace_bp *wanted, struct tracee *held, struct ptrace_bp *ret)
{
	struct ptrace_bp bp = *wanted;
	struct wc_error *err = NULL;
	bool more = true;
	int pass;

	bp.armed = (struct thread_ids){ 0 };
	for (pass = 0; more && !err && pass < 50; pass++)
		err = arm_new(&bp, held, STOP_TIMEOUT_MS, &more);
	if (err) {
		ptrace_bp_close(&bp);
		return err;
	}
	*ret = bp;
	return NULL;
}

struct wc_error *ptrace_bp_extend(struct ptrace_bp *bp)
{
	bool more;

	return arm_new(bp, NULL, NEW_TIMEOUT_MS, &more);
}

void ptrace_bp_close(struct ptrace_bp *bp)
{
	struct tracee t;
	size_t i;

	for (i = 0; i < bp->armed.n; i++) {
		if (tracee_stop(bp->pid, bp->armed.v[i], STOP_TIMEOUT_MS, &t) != TRACEE_STOPPED)
			continue;
		clear_registers(t.tid, bp);
		tracee_release(&t);
	}
	thread_ids_deinit(&bp->armed);
	*bp = (struct ptrace_bp){ 0 };
}
