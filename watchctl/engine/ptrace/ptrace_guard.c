#include "watchctl/engine/ptrace/ptrace_guard.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/engine/plan/dregs.h"
#include "watchctl/engine/ptrace/ptrace_tracer.h"
#include "watchctl/engine/ptrace/ptrace_probe.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/debugreg.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/helper_guard.h"
#include "watchctl/target/stop/helper_process.h"
#include "watchctl/target/stop/stop.h"
#include "watchctl/target/stop/tracee.h"
#include "watchctl/target/stop/tracing.h"

#define RESCUE_PASSES 20
#define RESCUE_NS 500000000ull

/* The end of the tracer */

static void freeze_all_of(pid_t pid)
{
	struct thread_ids ids;
	size_t i;

	if (!pid || !proc_threads(pid, &ids))
		return;
	for (i = 0; i < ids.n; i++)
		syscall(SYS_tgkill, pid, ids.v[i], SIGSTOP);
	thread_ids_deinit(&ids);
}

/* Each thread gets its own: the process as a whole would only stop once one of them was let go of. */
static void freeze(const struct ptrace_box *box)
{
	unsigned int i;

	for (i = 0; i < box->nthreads && i < BOX_THREADS; i++)
		if (box->thread[i].tid)
			syscall(SYS_tkill, box->thread[i].tid, SIGSTOP);
	for (i = 0; box->nthreads > BOX_THREADS && i < BOX_PROCESSES; i++)
		freeze_all_of(box->process[i].pid);
}

static bool is_foreign(const struct ptrace_box *box, pid_t tid, unsigned int slot)
{
	unsigned int i;

	for (i = 0; i < box->nforeign && i < BOX_FOREIGN; i++)
		if (box->foreign[i].tid == tid && box->foreign[i].slot == slot)
			return true;
	return false;
}

/* While the tracer traced the thread, nobody else could arm anything there by ptrace. */
static void clear(const struct ptrace_box *box, pid_t tid)
{
	unsigned int slot;
	uint64_t dr7;

	if (!debugreg_read(tid, DEBUGREG_CONTROL, &dr7))
		return;
	for (slot = 0; slot < DREGS; slot++)
		if (!is_foreign(box, tid, slot))
			dr7 &= ~dregs_dr7_mask(slot);
	debugreg_write(tid, DEBUGREG_CONTROL, dr7);
}

/* A hit, or the signal that froze the thread: neither is to be left to it. */
static bool has_queued_signal_of_ours(pid_t tid, bool frozen)
{
	siginfo_t info[TRACEE_QUEUED];
	long n = tracee_queued(tid, 0, info), i;

	for (i = 0; i < n; i++)
		if ((info[i].si_signo == SIGTRAP && info[i].si_code == TRAP_HWBKPT) ||
		    (frozen && info[i].si_signo == SIGSTOP && info[i].si_code == SI_TKILL))
			return true;
	return false;
}

static bool wait_for_stop(pid_t tid, uint64_t end, struct stop *ret)
{
	for (;;) {
		int status;
		pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

		if (got == tid) {
			*ret = stop_decode(status);
			return ret->kind != STOP_ENDED;
		}
		if (got < 0 || monotonic_ns() > end)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	}
}

/*
 * A thread that is about to stop. What it hit before is taken from it; every other signal stays its own, and
 * a system call that answered EINTR to our stops starts again.
 */
static void disarm(const struct ptrace_box *box, pid_t pid, pid_t tid, bool frozen)
{
	uint64_t end = monotonic_ns() + RESCUE_NS;
	struct stop s;
	siginfo_t info;
	int sig = 0;

	while (wait_for_stop(tid, end, &s)) {
		clear(box, tid);
		if (s.kind == STOP_SIGNAL) {
			sig = s.signal;
			if (sig == SIGTRAP && !held_ptrace(PTRACE_GETSIGINFO, tid, 0, &info) &&
			    info.si_code == TRAP_HWBKPT)
				sig = 0;
			if (sig == SIGSTOP && frozen)
				sig = 0;
		} else if (has_queued_signal_of_ours(tid, frozen)) {
			held_ptrace(PTRACE_CONT, tid, 0, 0);
			continue;
		}
		break;
	}
	if (!sig)
		tracing_undo_false_eintr(pid, tid);
	tracing_begin_call_again(pid, tid, NULL);
	held_ptrace(PTRACE_DETACH, tid, 0, sig);
}

static void rescue_process(const struct ptrace_box *box, const struct box_process *b, bool frozen)
{
	struct thread_ids done = { 0 }, ids;
	bool more = true;
	size_t i;
	int pass;

	for (pass = 0; more && pass < RESCUE_PASSES; pass++) {
		more = false;
		if (!proc_threads(b->pid, &ids))
			break;
		for (i = 0; i < ids.n; i++) {
			if (thread_ids_have(&done, ids.v[i]) || ptrace(PTRACE_SEIZE, ids.v[i], 0, 0) ||
			    ptrace(PTRACE_INTERRUPT, ids.v[i], 0, 0))
				ids.v[i] = 0;
		}
		for (i = 0; i < ids.n; i++) {
			if (!ids.v[i])
				continue;
			disarm(box, b->pid, ids.v[i], frozen);
			more = true;
		}
		thread_ids_deinit(&done);
		done = ids;
	}
	thread_ids_deinit(&done);
	if (frozen)
		kill(b->pid, SIGCONT);
}

void guard_rescue(const struct ptrace_box *box)
{
	unsigned int p;

	for (p = 0; p < BOX_PROCESSES; p++) {
		const struct box_process *b = &box->process[p];

		if (b->pid)
			rescue_process(box, b, box->frozen && !b->stopped);
	}
}

/* Its life */

static void on_dying(void *ctx)
{
	struct ptrace_box *box = ctx;

	__atomic_store_n(&box->frozen, true, __ATOMIC_RELEASE);
	freeze(box);
}

static void look_for_registers(void *ctx)
{
	struct ptrace_box *box = ctx;

	box->silent = ptrace_probe() == PROBE_SILENT;
}

static void trace(void *ctx)
{
	tracer_run(ptrace_box_control(ctx));
}

static void rescue(void *ctx)
{
	guard_rescue(ctx);
}

void guard_run(struct wire_control *ctl, int owner_fd, int memory_fd)
{
	struct ptrace_box *box = ptrace_box_of(ctl);

	helper_guard_live(&(struct helper_life){
		.name = GUARD_NAME,
		.target = box->target_pid,
		.owner_fd = owner_fd,
		.memory_fd = memory_fd,
		.poke = PTRACE_BOX_SIGNAL,
		.box = &box->helper,
		.text = box->text,
		.text_len = sizeof(box->text),
		.prepare = look_for_registers,
		.trace = trace,
		.is_dying = on_dying,
		.rescue = rescue,
		.ctx = box,
	});
}
