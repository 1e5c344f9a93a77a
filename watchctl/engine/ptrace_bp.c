#include "watchctl/engine/ptrace_bp.h"

#include <errno.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/engine/dregs.h"
#include "watchctl/target/debugreg.h"

#define STOP_TIMEOUT_MS 500
#define NEW_TIMEOUT_MS 2 /* for threads that are born later: they are asked again */

static struct wc_error *set_registers(pid_t tid, const struct ptrace_bp *bp)
{
	uint64_t dr7;

	if (!debugreg_read(tid, DEBUGREG_CONTROL, &dr7))
		return wc_error_errno(WC_ENOTSUP, errno, "cannot read the debug registers of thread %d", tid);
	if (dregs_enabled(dr7, bp->slot))
		return wc_error_new(
			WC_ESLOTS,
			"debug register %u is in use in thread %d, set by a debugger or an earlier watchctl: "
			"choose another with -i, or leave -i out",
			bp->slot, tid);
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
				"thread %d could not be stopped to set its debug registers: leave -i out to "
				"arm without stopping",
				tid);
		default:
			return wc_error_new(WC_EPERM,
					    "not permitted to set debug registers of thread %d: another "
					    "tracer holds it, or "
					    "it belongs to another user",
					    tid);
		}
	}
	if (!err && !vec_push(bp->armed.v, bp->armed.n, bp->armed.cap, tid))
		err = &wc_enomem;
	return err;
}

static bool is_armed(const struct ptrace_bp *bp, pid_t tid)
{
	size_t i;

	for (i = 0; i < bp->armed.n; i++)
		if (bp->armed.v[i] == tid)
			return true;
	return false;
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
	for (i = 0; i < ids.n && !err; i++) {
		if (is_armed(bp, ids.v[i]))
			continue;
		err = arm_thread(bp, ids.v[i], held, timeout_ms);
		*ret_new = true;
	}
	thread_ids_deinit(&ids);
	return err;
}

struct wc_error *ptrace_bp_open(pid_t pid, unsigned int slot, uint64_t addr, uint32_t size,
				enum access_kind access, struct tracee *held, struct ptrace_bp *ret)
{
	struct ptrace_bp bp = { .pid = pid, .slot = slot, .addr = addr, .size = size, .access = access };
	struct wc_error *err = NULL;
	bool more = true;
	int pass;

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
