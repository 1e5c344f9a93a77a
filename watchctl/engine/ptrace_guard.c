#include "watchctl/engine/ptrace_guard.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/engine/dregs.h"
#include "watchctl/engine/ptrace_keeper.h"
#include "watchctl/engine/ptrace_probe.h"
#include "watchctl/engine/ptrace_process.h"
#include "watchctl/target/debugreg.h"
#include "watchctl/target/proc.h"
#include "watchctl/target/stop.h"

#define POKE_MS 2
#define POKE_MAX_MS 200
#define RESCUE_PASSES 20
#define RESCUE_NS 500000000ull
#define PEEK_MAX 8

/* The end of the keeper */

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

/* While the keeper traced the thread, nobody else could arm anything there by ptrace. */
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

static bool has_queued_hit(pid_t tid)
{
	struct __ptrace_peeksiginfo_args what = { .nr = PEEK_MAX };
	siginfo_t info[PEEK_MAX];
	long n = ptrace(PTRACE_PEEKSIGINFO, tid, &what, info), i;

	for (i = 0; i < n; i++)
		if (info[i].si_signo == SIGTRAP && info[i].si_code == TRAP_HWBKPT)
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

/* A thread that is about to stop. What it hit before is taken from it; every other signal stays its own. */
static void disarm(const struct ptrace_box *box, pid_t tid, bool frozen)
{
	uint64_t end = monotonic_ns() + RESCUE_NS;
	struct stop s;
	siginfo_t info;
	int sig = 0;

	while (wait_for_stop(tid, end, &s)) {
		clear(box, tid);
		if (s.kind == STOP_SIGNAL) {
			sig = s.signal;
			if (sig == SIGTRAP && !ptrace(PTRACE_GETSIGINFO, tid, 0, &info) &&
			    info.si_code == TRAP_HWBKPT)
				sig = 0;
			if (sig == SIGSTOP && frozen)
				sig = 0;
		} else if (has_queued_hit(tid)) {
			ptrace(PTRACE_CONT, tid, 0, 0);
			continue;
		}
		break;
	}
	ptrace(PTRACE_DETACH, tid, 0, sig);
}

static bool contains(const struct thread_ids *ids, pid_t tid)
{
	size_t i;

	for (i = 0; i < ids->n; i++)
		if (ids->v[i] == tid)
			return true;
	return false;
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
			if (contains(&done, ids.v[i]) || ptrace(PTRACE_SEIZE, ids.v[i], 0, 0) ||
			    ptrace(PTRACE_INTERRUPT, ids.v[i], 0, 0))
				ids.v[i] = 0;
		}
		for (i = 0; i < ids.n; i++) {
			if (!ids.v[i])
				continue;
			disarm(box, ids.v[i], frozen);
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

struct guard {
	struct ptrace_box *box;
	pid_t keeper;
	int owner_fd, child_fd;
	bool keeper_ended;
};

/* Of the signals that come to the keeper, it gets those that are ours, and those that its own mistakes raise.
 */
static int passed_on(const struct guard *g, int sig)
{
	siginfo_t info;

	switch (sig) {
	case PTRACE_BOX_SIGNAL:
	case SIGUSR2:
	case SIGALRM:
		return sig;
	case SIGSEGV:
	case SIGBUS:
	case SIGILL:
	case SIGFPE:
	case SIGABRT:
		return ptrace(PTRACE_GETSIGINFO, g->keeper, 0, &info) || info.si_code > 0 || sig == SIGABRT
			       ? sig
			       : 0;
	default:
		return 0;
	}
}

static void on_keeper(struct guard *g, int status)
{
	struct stop s = stop_decode(status);

	if (s.kind == STOP_ENDED) {
		g->keeper_ended = true;
		return;
	}
	if (s.kind == STOP_EXITING && !__atomic_load_n(&g->box->finished, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&g->box->frozen, true, __ATOMIC_RELEASE);
		freeze(g->box);
	}
	ptrace(PTRACE_CONT, g->keeper, 0, s.kind == STOP_SIGNAL ? passed_on(g, s.signal) : 0);
}

static void take_stops(struct guard *g)
{
	struct signalfd_siginfo info;
	int status;

	while (read(g->child_fd, &info, sizeof(info)) > 0)
		;
	while (!g->keeper_ended) {
		pid_t got = waitpid(g->keeper, &status, __WALL | WNOHANG);

		if (got == g->keeper)
			on_keeper(g, status);
		else if (got < 0 && errno != EINTR)
			g->keeper_ended = true;
		else if (!got)
			break;
	}
}

/*
 * A poke that comes between the keeper's look into the box and its wait is missed, so there is another. Not
 * too soon: each costs it two switches, and on a busy CPU it would do nothing else.
 */
static void watch_over(struct guard *g)
{
	int wait_ms = POKE_MS;

	while (!g->keeper_ended) {
		struct pollfd p[2] = { { .fd = g->child_fd, .events = POLLIN },
				       { .fd = g->owner_fd, .events = POLLIN } };
		bool orphaned = g->box->orphaned;
		bool poking = orphaned && !__atomic_load_n(&g->box->leaving, __ATOMIC_ACQUIRE);
		int ready = poll(p, orphaned ? 1 : 2, poking ? wait_ms : -1);

		take_stops(g);
		if (g->keeper_ended || (orphaned && !(poking && !ready)) || (!orphaned && !p[1].revents))
			continue;
		__atomic_store_n(&g->box->orphaned, true, __ATOMIC_RELEASE);
		kill(g->keeper, PTRACE_BOX_SIGNAL);
		wait_ms = wait_ms < POKE_MAX_MS ? 2 * wait_ms : wait_ms;
	}
}

static pid_t start_keeper(struct wire_control *ctl)
{
	pid_t pid = fork();

	if (!pid)
		keeper_run(ctl);
	return pid;
}

void guard_run(struct wire_control *ctl, int owner_fd, int memory_fd)
{
	struct guard g = { .box = ptrace_box_of(ctl), .owner_fd = PROCESS_OWNER_FD };
	char line[80];
	sigset_t child;

	process_withdraw(owner_fd, memory_fd);
	process_ignore_signals();
	process_spare();
	snprintf(line, sizeof(line), GUARD_NAME " of process %d", g.box->target_pid);
	process_rename(GUARD_NAME, line);
	signal(PTRACE_BOX_SIGNAL, SIG_IGN);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_SETMASK, &child, NULL);
	signal(SIGCHLD, SIG_DFL);
	g.child_fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
	g.box->guard_pid = getpid();
	g.box->silent = ptrace_probe() == PROBE_SILENT;
	g.keeper = start_keeper(ctl);
	if (g.keeper < 0 || g.child_fd < 0)
		_exit(1);
	g.box->keeper_pid = g.keeper;
	/* Where that is refused, it is saved without the SIGSTOP. */
	ptrace(PTRACE_SEIZE, g.keeper, 0, PTRACE_O_TRACEEXIT);
	__atomic_store_n(&g.box->guarded, true, __ATOMIC_RELEASE);
	/* It hardly ever runs, and then at once, where that is permitted. */
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
	watch_over(&g);
	if (!g.box->finished)
		guard_rescue(g.box);
	_exit(g.box->finished ? 0 : 1);
}
