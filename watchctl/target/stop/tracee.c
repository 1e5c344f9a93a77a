#include "watchctl/target/stop/tracee.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/code/insn/syscall_site.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"

/* Results of interrupted system calls that never reach user space (include/linux/errno.h). */
#define K_ERESTARTSYS 512
#define K_ERESTARTNOINTR 513
#define K_ERESTARTNOHAND 514
#define K_ERESTART_RESTARTBLOCK 516
#define NR_RESTART_SYSCALL 219

/* Signal frame layout: arch/x86/include/uapi/asm/{ucontext,sigcontext}.h */
#define UC_FLAGS_XSTATE_SS 7u
#define UC_STACK_FLAGS 24
#define UC_GREGS 40
#define UC_FPSTATE 224
#define UC_SIGMASK 296
#define UC_SIZE 304
#define XSAVE_LEGACY 512
#define XSAVE_HEADER_END 576
#define SW_RESERVED 464
#define SW_MAGIC1 0x46505853u
#define SW_MAGIC2 0x46505845u
/* While these are blocked the kernel would make their action the default, and they would be the end. */
#define FAULTS (1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1))
#define INVALID_SS_FLAGS 0x7f /* not a valid ss_flags: rt_sigreturn then leaves the alternate stack alone */

#define ABANDON_MS 20
#define PATIENCE_NS 10000000000ull /* for a thread that only waits for a CPU */
#define LOOK_NS 2000000ull	   /* how often it is looked whether it does */
#define MEET_NS 3000000000ull	   /* so long another watchctl, which holds it for a moment, is waited for */
#define CALL_MS 500		   /* so long a call that we have it make may look as if it waited */

enum wait_result { WAIT_SYSCALL, WAIT_EVENT_STOP, WAIT_SIGNAL, WAIT_GONE, WAIT_TIMEOUT };

/* Only a call that nothing interrupts keeps a thread from stopping for us as soon as it gets a CPU. */
static bool is_uninterruptible(pid_t tid)
{
	struct proc_status s;

	return proc_status_read(tid, tid, &s) && s.state == 'D';
}

/* Nothing that we have a thread do waits like this: it is frozen (cgroup v2's freezer; v1's makes it D). */
static bool is_asleep(pid_t tid)
{
	struct proc_status s;

	return proc_status_read(tid, tid, &s) && s.state == 'S';
}

/*
 * Waits for the next stop; spins first, since a stop is a matter of microseconds. A thread that has been
 * seized cannot be let go of before it stops: so the time is for those that cannot stop, not for a machine
 * that is busy.
 */
static enum wait_result wait_stop(pid_t tid, unsigned int timeout_ms, int *ret_signal)
{
	uint64_t start = monotonic_ns(), end = start + (uint64_t)timeout_ms * 1000000u;
	unsigned int tries = 0;
	int status;

	for (;;) {
		pid_t got = waitpid(tid, &status, __WALL | WNOHANG);

		if (got == tid)
			break;
		if (got < 0 && errno != EINTR)
			return WAIT_GONE;
		if (monotonic_ns() > end) {
			if (monotonic_ns() - start > PATIENCE_NS || is_uninterruptible(tid) || is_asleep(tid))
				return WAIT_TIMEOUT;
			end = monotonic_ns() + LOOK_NS;
		}
		if (++tries < 200)
			sched_yield();
		else
			nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
	}
	if (!WIFSTOPPED(status))
		return WAIT_GONE;
	*ret_signal = WSTOPSIG(status);
	if (WSTOPSIG(status) == (SIGTRAP | 0x80))
		return WAIT_SYSCALL;
	if (status >> 16 == PTRACE_EVENT_STOP)
		return WAIT_EVENT_STOP;
	return WAIT_SIGNAL;
}

static bool get_regs(pid_t tid, struct user_regs_struct *regs)
{
	return !held_ptrace(PTRACE_GETREGS, tid, 0, regs);
}

static bool set_regs(pid_t tid, const struct user_regs_struct *regs)
{
	return !held_ptrace(PTRACE_SETREGS, tid, 0, regs);
}

static bool set_sigmask(pid_t tid, uint64_t mask)
{
	return !held_ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask);
}

long tracee_queued_from(pid_t tid, uint32_t flags, uint64_t from, siginfo_t ret[TRACEE_QUEUED])
{
	struct __ptrace_peeksiginfo_args what = { .off = from, .flags = flags, .nr = TRACEE_QUEUED };

	return held_ptrace(PTRACE_PEEKSIGINFO, tid, &what, ret);
}

long tracee_queued(pid_t tid, uint32_t flags, siginfo_t ret[TRACEE_QUEUED])
{
	return tracee_queued_from(tid, flags, 0, ret);
}

/* What /proc says as well, for when it cannot be opened; but not which of them are ignored. */
static bool waits_for_none(pid_t tid, uint32_t flags)
{
	siginfo_t info[TRACEE_QUEUED];
	uint64_t mask;
	long n = tracee_queued(tid, flags, info), i;

	if (n < 0 || n == TRACEE_QUEUED || held_ptrace(PTRACE_GETSIGMASK, tid, sizeof(mask), &mask))
		return false;
	for (i = 0; i < n; i++)
		if (!(mask >> (info[i].si_signo - 1) & 1))
			return false;
	return true;
}

/* A signal that it will take. One that is ignored waits only because there is a tracer: it would have woken
 * nobody. */
static bool waits_for_signal(pid_t pid, pid_t tid)
{
	struct proc_status s;

	if (proc_status_read(pid, tid, &s))
		return s.pending & ~s.blocked & ~proc_ignored_signals(&s);
	return !waits_for_none(tid, 0) || !waits_for_none(tid, PTRACE_PEEKSIGINFO_SHARED);
}

bool tracee_undo_false_eintr(pid_t pid, pid_t tid, struct user_regs_struct *regs)
{
	if ((long)regs->orig_rax < 0 || (long)regs->rax != -EINTR || waits_for_signal(pid, tid))
		return false;
	regs->rax = regs->orig_rax;
	regs->rip -= 2;
	regs->orig_rax = (unsigned long long)-1;
	return true;
}

bool tracee_begin_call_again(pid_t pid, pid_t tid, struct user_regs_struct *regs)
{
	const struct memory_view mem = proc_memory(&pid);
	uint64_t number = regs->orig_rax;
	struct proc_status s;

	if ((long)regs->orig_rax < 0 || (long)regs->rax != -K_ERESTART_RESTARTBLOCK)
		return false;
	if (proc_status_read(pid, tid, &s) && !s.seccomp)
		return false;
	/* A stop before it was under seccomp has had it resumed. */
	if (number == NR_RESTART_SYSCALL && !syscall_site_number(&mem, regs->rip, &number)) {
		regs->rax = (unsigned long long)-EINTR;
		return true;
	}
	regs->orig_rax = number;
	regs->rax = (unsigned long long)-K_ERESTARTNOHAND; /* arch_do_signal_or_restart() */
	return true;
}

/* A call that the stop has interrupted goes on as if there had been none, as soon as the thread does. */
static bool mend_call(pid_t pid, pid_t tid, struct user_regs_struct *regs)
{
	return (!tracee_undo_false_eintr(pid, tid, regs) && !tracee_begin_call_again(pid, tid, regs)) ||
	       set_regs(tid, regs);
}

static void let_go(pid_t pid, pid_t tid, int sig)
{
	struct user_regs_struct regs;

	if (get_regs(tid, &regs) && tracee_begin_call_again(pid, tid, &regs))
		set_regs(tid, &regs);
	held_ptrace(PTRACE_DETACH, tid, 0, sig);
}

static enum tracee_stop_result seize(pid_t tid)
{
	if (!ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD))
		return TRACEE_STOPPED;
	if (errno == ESRCH)
		return TRACEE_GONE;
	return TRACEE_DENIED;
}

/* A signal for the program met on the way to our stop: it takes it, and we ask again. */
static enum tracee_stop_result wait_interrupted(pid_t tid, unsigned int timeout_ms)
{
	uint64_t end = monotonic_ns() + (uint64_t)timeout_ms * 1000000u;
	int sig = 0;

	for (;;) {
		switch (wait_stop(tid, timeout_ms, &sig)) {
		case WAIT_EVENT_STOP:
			return TRACEE_STOPPED;
		case WAIT_SYSCALL:
			sig = 0;
			/* fall through */
		case WAIT_SIGNAL:
			/* Any stop makes the kernel forget the one that it was asked for. */
			if (ptrace(PTRACE_INTERRUPT, tid, 0, 0) || held_ptrace(PTRACE_CONT, tid, 0, sig))
				return TRACEE_GONE;
			if (monotonic_ns() > end)
				return TRACEE_BUSY;
			continue;
		case WAIT_TIMEOUT:
			return TRACEE_BUSY;
		case WAIT_GONE:
			return TRACEE_GONE;
		}
	}
}

/* It did not stop: let go of it as soon as it does, without waiting for ever. */
static void abandon(pid_t pid, pid_t tid)
{
	int sig = 0;

	if (!held_ptrace(PTRACE_DETACH, tid, 0, 0))
		return;
	switch (wait_stop(tid, ABANDON_MS, &sig)) {
	case WAIT_EVENT_STOP:
	case WAIT_SYSCALL:
		let_go(pid, tid, 0);
		break;
	case WAIT_SIGNAL:
		let_go(pid, tid, sig);
		break;
	default:
		break;
	}
}

/*
 * Of a thread that executes a program no more is heard under its own number: it has the main one's from then
 * on, and we trace it still. An exec takes its time.
 */
static void let_go_of_successor(pid_t pid, pid_t tid)
{
	uint64_t end = monotonic_ns() + PATIENCE_NS;

	while (tid != pid && !ptrace(PTRACE_INTERRUPT, pid, 0, 0) && monotonic_ns() < end)
		abandon(pid, pid);
}

/* Whoever is in such a call would stop at its end, whenever that is, and wait for us: it is not seized. */
static bool waits_to_be_interruptible(pid_t tid, unsigned int timeout_ms)
{
	uint64_t end = monotonic_ns() + (uint64_t)timeout_ms * 1000000u;

	while (is_uninterruptible(tid)) {
		if (monotonic_ns() > end)
			return false;
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
	return true;
}

static bool is_one_of_us(pid_t pid)
{
	struct proc_status s, ours;

	return pid != getpid() && proc_status_read(pid, pid, &s) &&
	       proc_status_read(getpid(), getpid(), &ours) && !strcmp(s.name, ours.name);
}

/* Reading which call a thread is in takes that permission and nothing else (fs/proc/base.c). */
bool tracee_is_permitted(pid_t pid, pid_t tid)
{
	char path[64], c;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && read(fd, &c, 1) == 1;
}

/*
 * After a refusal: another of us holds the thread for a moment, or whoever held it has just let go of it.
 * *until: 0 at first. *refusal becomes the reason that shows now.
 */
static bool may_try_again(pid_t pid, pid_t tid, uint64_t *until, enum tracee_stop_result *refusal)
{
	struct proc_status s;

	if (!proc_status_read(pid, tid, &s))
		return false;
	if (s.state == 'Z' || s.state == 'X') {
		*refusal = TRACEE_GONE;
		return false;
	}
	if (s.tracer)
		*refusal = TRACEE_TRACED;
	if (s.tracer ? !is_one_of_us(s.tracer) : !tracee_is_permitted(pid, tid))
		return false;
	if (!*until)
		*until = monotonic_ns() + MEET_NS;
	nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	return monotonic_ns() < *until;
}

enum tracee_stop_result tracee_stop(pid_t pid, pid_t tid, unsigned int timeout_ms, struct tracee *ret)
{
	struct tracee t = { .pid = pid, .tid = tid };
	uint64_t until = 0;
	enum tracee_stop_result r;

	if (!waits_to_be_interruptible(tid, timeout_ms))
		return TRACEE_BUSY;
	do {
		t.stopped_at_ns = monotonic_ns();
		r = seize(tid);
	} while (r == TRACEE_DENIED && may_try_again(pid, tid, &until, &r));
	if (r != TRACEE_STOPPED)
		return r;
	r = ptrace(PTRACE_INTERRUPT, tid, 0, 0) ? TRACEE_GONE : wait_interrupted(tid, timeout_ms);
	if (r != TRACEE_STOPPED) {
		if (r == TRACEE_BUSY)
			abandon(pid, tid);
		else
			let_go_of_successor(pid, tid);
		return r;
	}
	if (!get_regs(tid, &t.home) || held_ptrace(PTRACE_GETSIGMASK, tid, sizeof(t.sigmask), &t.sigmask)) {
		held_ptrace(PTRACE_DETACH, tid, 0, 0);
		return TRACEE_GONE;
	}
	/* At once: the kernel lets go of it with the registers that it has when we are killed. */
	if (!mend_call(pid, tid, &t.home)) {
		held_ptrace(PTRACE_DETACH, tid, 0, 0);
		return TRACEE_GONE;
	}
	*ret = t;
	return TRACEE_STOPPED;
}

bool tracee_hold(pid_t pid, pid_t tid, struct tracee *ret)
{
	struct tracee t = { .pid = pid, .tid = tid, .stopped_at_ns = monotonic_ns() };
	siginfo_t info;

	if (held_ptrace(PTRACE_GETSIGINFO, tid, 0, &info) || info.si_code >> 8 != PTRACE_EVENT_STOP ||
	    held_ptrace(PTRACE_SETOPTIONS, tid, 0, PTRACE_O_TRACESYSGOOD) || !get_regs(tid, &t.home) ||
	    held_ptrace(PTRACE_GETSIGMASK, tid, sizeof(t.sigmask), &t.sigmask))
		return false;
	*ret = t;
	return true;
}

/* How much of the extended state is in use: the end of the last component whose bit is set. */
static size_t xsave_used(const uint8_t *xsave, size_t len)
{
	size_t end = XSAVE_HEADER_END;
	uint64_t in_use;
	unsigned int i;

	memcpy(&in_use, xsave + XSAVE_LEGACY, sizeof(in_use));
	for (i = 2; i < 63; i++) {
		unsigned int size, offset, c, d;

		if (!(in_use >> i & 1))
			continue;
		__cpuid_count(0xd, i, size, offset, c, d);
		if (offset + size > end)
			end = offset + size;
	}
	return end <= len ? end : 0;
}

/* What rt_sigreturn wants to find around an xsave image; see fpu__restore_sig() in the kernel. */
static void finish_xsave(uint8_t *xsave, size_t size)
{
	struct {
		uint32_t magic1, extended_size;
		uint64_t xfeatures;
		uint32_t xstate_size, pad[7];
	} sw = { .magic1 = SW_MAGIC1, .extended_size = (uint32_t)size + 4, .xstate_size = (uint32_t)size };
	uint32_t magic2 = SW_MAGIC2;

	memcpy(&sw.xfeatures, xsave + XSAVE_LEGACY, sizeof(sw.xfeatures));
	sw.xfeatures |= 3; /* x87 and SSE are always there */
	memcpy(xsave + SW_RESERVED, &sw, sizeof(sw));
	memcpy(xsave + size, &magic2, sizeof(magic2));
}

/* The program's own way out of an interrupted system call, were it to return from a signal handler now. */
static struct user_regs_struct restarted(const struct user_regs_struct *found)
{
	struct user_regs_struct r = *found;
	long result = (long)r.rax;

	if ((long)r.orig_rax < 0)
		return r;
	switch (-result) {
	case K_ERESTARTSYS:
	case K_ERESTARTNOINTR:
	case K_ERESTARTNOHAND:
	case K_ERESTART_RESTARTBLOCK: /* from its beginning: rt_sigreturn forgets what was left of the time */
		r.rax = r.orig_rax;
		r.rip -= 2;
		break;
	}
	return r;
}

static void put_gregs(uint8_t *frame, const struct user_regs_struct *r)
{
	const uint64_t gregs[18] = {
		r->r8,	r->r9,	r->r10, r->r11, r->r12, r->r13, r->r14, r->r15, r->rdi,
		r->rsi, r->rbp, r->rbx, r->rdx, r->rax, r->rcx, r->rsp, r->rip, r->eflags
	};
	const uint16_t segments[4] = { (uint16_t)r->cs, (uint16_t)r->gs, (uint16_t)r->fs, (uint16_t)r->ss };

	memcpy(frame + UC_GREGS, gregs, sizeof(gregs));
	memcpy(frame + UC_GREGS + sizeof(gregs), segments, sizeof(segments));
}

_Static_assert(UC_SIZE <= TRACEE_DETOUR_FRAME, "a detour's frame has room for a ucontext");

bool tracee_build_frame(struct tracee *t, uint64_t addr)
{
	const uint64_t flags = UC_FLAGS_XSTATE_SS;
	const uint64_t fpstate = addr + ((UC_SIZE + 63) & ~63u);
	const uint32_t ss_flags = INVALID_SS_FLAGS;
	struct user_regs_struct home = restarted(&t->home);
	uint8_t *frame = calloc(1, TRACEE_FRAME_MAX);
	uint8_t *xsave = frame ? frame + (fpstate - addr) : NULL;
	struct iovec io = { xsave, TRACEE_FRAME_MAX - (fpstate - addr) - 64 };
	size_t used;

	if (!frame || held_ptrace(PTRACE_GETREGSET, t->tid, NT_X86_XSTATE, &io)) {
		free(frame);
		return false;
	}
	used = xsave_used(xsave, io.iov_len);
	if (!used) {
		free(frame);
		return false;
	}
	finish_xsave(xsave, used);
	memcpy(frame, &flags, sizeof(flags));
	memcpy(frame + UC_STACK_FLAGS, &ss_flags, sizeof(ss_flags));
	put_gregs(frame, &home);
	memcpy(frame + UC_FPSTATE, &fpstate, sizeof(fpstate));
	memcpy(frame + UC_SIGMASK, &t->sigmask, sizeof(t->sigmask));
	free(t->frame);
	t->frame = frame;
	t->frame_len = (size_t)(fpstate - addr) + used + 4;
	return true;
}

void tracee_build_detour(const struct tracee *t, uint64_t rip, uint64_t rsp, long nr, uint64_t a, uint64_t b,
			 uint8_t ret[TRACEE_DETOUR_FRAME])
{
	const uint64_t all = ~0ull;
	struct user_regs_struct r = t->home;

	r.rip = rip;
	r.rsp = rsp;
	r.rax = (unsigned long long)nr;
	r.rdi = a;
	r.rsi = b;
	memset(ret, 0, TRACEE_DETOUR_FRAME);
	memcpy(ret, t->frame, UC_SIZE);
	put_gregs(ret, &r);
	memcpy(ret + UC_SIGMASK, &all, sizeof(all));
}

static struct wc_error *died(const struct tracee *t)
{
	if (!proc_is_ending(t->pid, t->tid))
		return wc_error_new(
			WC_ENOTSUP,
			"thread %d of process %d does not continue: it may be frozen (cgroup freezer); "
			"try again when it runs",
			t->tid, t->pid);
	return wc_error_new(WC_ETARGET, "thread %d of process %d ended while it was being prepared", t->tid,
			    t->pid);
}

/* Registers first, mask second: see the rule at the top of tracee.h. */
static bool send_away(struct tracee *t, struct user_regs_struct *r, uint64_t mask)
{
	r->orig_rax = (unsigned long long)-1;
	t->away = true;
	return set_regs(t->tid, r) && set_sigmask(t->tid, mask);
}

/* It did not go on. A frozen thread can be stopped all the same, and so be led home. */
static void catch_again(const struct tracee *t)
{
	int sig;

	if (!ptrace(PTRACE_INTERRUPT, t->tid, 0, 0))
		wait_stop(t->tid, CALL_MS, &sig);
}

static enum wait_result wait_call(pid_t tid, int *sig)
{
	uint64_t start = monotonic_ns();
	enum wait_result r;

	do
		r = wait_stop(tid, CALL_MS, sig);
	while (r == WAIT_TIMEOUT && !is_asleep(tid) && monotonic_ns() - start < PATIENCE_NS);
	return r;
}

/* Lets it run to the next system call boundary; job-control stops and kills are dealt with on the way. */
static bool run_to_syscall(struct tracee *t)
{
	int sig = 0;

	for (;;) {
		if (held_ptrace(PTRACE_SYSCALL, t->tid, 0, sig))
			return false;
		switch (wait_call(t->tid, &sig)) {
		case WAIT_SYSCALL:
			return true;
		case WAIT_EVENT_STOP:
			sig = 0;
			continue;
		case WAIT_SIGNAL:
			continue;
		case WAIT_TIMEOUT:
			catch_again(t);
			return false;
		default:
			return false;
		}
	}
}

struct wc_error *tracee_syscall(struct tracee *t, uint64_t rip, uint64_t rsp, long nr, const uint64_t arg[6],
				long *ret)
{
	struct user_regs_struct r = t->home;

	r.rip = rip;
	r.rsp = rsp;
	r.rax = (unsigned long long)nr;
	r.rdi = arg[0];
	r.rsi = arg[1];
	r.rdx = arg[2];
	r.r10 = arg[3];
	r.r8 = arg[4];
	r.r9 = arg[5];
	if (!send_away(t, &r, ~0ull) || !run_to_syscall(t) || !run_to_syscall(t) || !get_regs(t->tid, &r))
		return died(t);
	*ret = (long)r.rax;
	return NULL;
}

/* Raised by the instruction at @rip, not sent by anybody. */
static bool is_fault_at(pid_t tid, const siginfo_t *info, uint64_t rip)
{
	struct user_regs_struct r;

	return (info->si_signo == SIGSEGV || info->si_signo == SIGBUS) && info->si_code > 0 &&
	       get_regs(tid, &r) && r.rip == rip;
}

struct wc_error *tracee_expect_trap(struct tracee *t, uint64_t rip, uint64_t rsp, uint64_t rdi, int si_code,
				    unsigned int timeout_ms, bool *ret)
{
	struct user_regs_struct r = t->home;
	siginfo_t info = { 0 };
	int sig;

	*ret = false;
	r.rip = rip;
	r.rsp = rsp;
	r.rdi = rdi;
	if (!send_away(t, &r, ~(PROC_SIGTRAP | FAULTS)) || held_ptrace(PTRACE_SYSCALL, t->tid, 0, 0))
		return died(t);
	switch (wait_stop(t->tid, timeout_ms, &sig)) {
	case WAIT_SIGNAL:
		held_ptrace(PTRACE_GETSIGINFO, t->tid, 0, &info);
		*ret = sig == SIGTRAP && info.si_code == si_code;
		if (!*ret && !is_fault_at(t->tid, &info, rip))
			t->pending_signal = sig;
		return NULL;
	case WAIT_SYSCALL: /* it went past the access without a trap, and is about to go home */
	case WAIT_EVENT_STOP:
		return NULL;
	case WAIT_TIMEOUT:
		catch_again(t);
		return died(t);
	default:
		return died(t);
	}
}

/*
 * Into a stop inside the kernel's signal path, where it looks at the registers once more for a system
 * call to restart. A thread that stands before its rt_sigreturn is made to skip it: the stub loops.
 */
static bool stop_in_signal_path(struct tracee *t)
{
	struct user_regs_struct r;
	int sig = t->pending_signal;

	if (!get_regs(t->tid, &r))
		return false;
	if ((long)r.orig_rax >= 0) {
		r.orig_rax = (unsigned long long)-1;
		if (!set_regs(t->tid, &r))
			return false;
	}
	t->pending_signal = 0;
	for (;;) {
		if (ptrace(PTRACE_INTERRUPT, t->tid, 0, 0) || held_ptrace(PTRACE_CONT, t->tid, 0, sig))
			return false;
		switch (wait_stop(t->tid, 10000, &sig)) {
		case WAIT_EVENT_STOP:
			return true;
		case WAIT_SIGNAL:
			continue;
		case WAIT_SYSCALL:
			sig = 0;
			continue;
		default:
			return false;
		}
	}
}

struct wc_error *tracee_go_home(struct tracee *t, void (*at_home)(void *ctx), void *ctx)
{
	if (t->away) {
		/* Mask before registers: until the registers are home, the stub would lead home by itself. */
		if (!stop_in_signal_path(t) || !set_sigmask(t->tid, t->sigmask) ||
		    !set_regs(t->tid, &t->home))
			return died(t);
		t->away = false;
	}
	if (at_home)
		at_home(ctx);
	return NULL;
}

uint64_t tracee_release(struct tracee *t)
{
	uint64_t stopped = monotonic_ns() - t->stopped_at_ns;

	if (t->away)
		wc_error_free(tracee_go_home(t, NULL, NULL));
	else
		set_regs(t->tid, &t->home); /* with what was mended of its call */
	held_ptrace(PTRACE_DETACH, t->tid, 0, 0);
	free(t->frame);
	*t = (struct tracee){ 0 };
	return stopped;
}
