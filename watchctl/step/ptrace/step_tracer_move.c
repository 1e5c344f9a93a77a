/*
 * The instruction under a breakpoint has to be executed while the breakpoint stays, for the other threads. In
 * order of cost:
 *
 *	emulate	what most functions begin with is simple enough to be done here, on registers and memory
 *	copy	the instruction is single-stepped at a place of our own (step_tracer_copies.c): one more stop
 *	lift	the breakpoint is taken out, the instruction single-stepped in place, and the breakpoint set
 *		again; all other threads stand still meanwhile, so that none comes by unseen
 *
 * A step can be interrupted before the instruction has begun: by a signal that comes first, or by a fault.
 * The thread then stands at the breakpoint again, and will run into it a second time; reported_at and reported_sp
 * remember that this hit was reported.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/stop.h"

/* Who has not stopped by then is in the kernel, and stops when it comes out. */
#define OTHERS_NS 20000000ull
/* On a machine that is very busy, where there is no hurry. */
#define ALL_NS 3000000000ull
/* A fork's wait for memory; that of a vfork, for its child, may be long. */
#define COPY_NS 200000000ull
uint64_t step_move_lift_ns = 50000000;

static bool write_memory(void *ctx, uint64_t addr, const void *bytes, uint32_t len)
{
	const struct step_tracer *k = ctx;
	struct iovec local = { (void *)(uintptr_t)bytes, len }, remote = { (void *)(uintptr_t)addr, len };

	return process_vm_writev(k->vm_tid, &local, 1, &remote, 1, 0) == (ssize_t)len;
}

/* The program's code, as it is without us. */
static uint32_t read_original(const struct step_tracer *k, uint64_t addr, uint8_t bytes[INSN_MAX])
{
	uint32_t len = (uint32_t)step_state_copy(k, addr, bytes, INSN_MAX), i, n;

	for (i = 0; i < len; i++)
		if (step_breaks_find(k, addr + i, &n) && k->breaks[n].planted)
			bytes[i] = k->breaks[n].original;
	return len;
}

static void step_tracer_move_prepare(struct step_tracer *k, struct step_break *b)
{
	uint8_t bytes[INSN_MAX];
	uint32_t len = read_original(k, b->address, bytes);

	if (!len || !insn_move_prepare(bytes, len, b->address, &b->move))
		b->move.way = INSN_LIFT;
	if (len)
		b->move.bytes[0] = bytes[0];
	/* The CPU compares return addresses with a stack of its own, which only it can write. */
	if (k->has_shadow_stack && (b->move.insn.is_call || b->move.insn.is_ret))
		b->move.way = INSN_LIFT;
	b->copy = 0;
	b->no_copy = false;
	b->prepared = true;
}

static bool emulate(struct step_tracer *k, struct step_thread *t, const struct step_break *b)
{
	const struct memory_view mem = step_state_memory(k);
	struct regs regs;

	step_state_regs(t, &regs);
	if (!insn_emulate(&b->move, b->address, &regs, &mem, write_memory, k))
		return false;
	step_state_set_regs(t, &regs);
	return true;
}

/* Lifting */

static bool is_running(const struct step_thread *t)
{
	return !t->stopped && !t->dead && !t->aside;
}

static unsigned int step_tracer_move_count(const struct step_tracer *k, const struct step_thread *but,
					   bool (*counts)(const struct step_thread *t))
{
	const struct step_thread *t;
	unsigned int i, n = 0;

	for (i = 0; i < STEP_BUCKETS; i++)
		for (t = k->bucket[i]; t; t = t->next)
			n += t != but && counts(t);
	return n;
}

/* A leader that has ended before its other threads takes no stop any more. */
static void look_for_dead(struct step_tracer *k, struct step_thread *t)
{
	struct proc_status s;

	(void)k;
	if (is_running(t) && proc_status_read(t->pid, t->tid, &s) && (s.state == 'Z' || s.state == 'X'))
		t->dead = true;
}

static void put_aside(struct step_tracer *k, pid_t tid, int status)
{
	struct step_thread *t = step_threads_find(k, tid);

	if (t)
		t->aside = true;
	step_threads_put_aside(k, tid, status);
}

/* False: there was none. */
static bool put_next_aside(struct step_tracer *k)
{
	int status;
	pid_t tid = step_threads_take(k, &status, WNOHANG);

	if (tid > 0)
		put_aside(k, tid, status);
	return tid > 0;
}

static void wait_for_stops(struct step_tracer *k, const struct step_thread *but)
{
	uint64_t end = monotonic_ns() + OTHERS_NS;

	while (step_tracer_move_count(k, but, is_running))
		if (!put_next_aside(k) && monotonic_ns() > end)
			break;
	if (step_tracer_move_count(k, but, is_running))
		step_threads_each(k, look_for_dead);
}

/* It needs nothing but a CPU to stop. */
static bool awaits_cpu(const struct step_thread *t)
{
	struct proc_status s;

	return is_running(t) && proc_status_read(t->pid, t->tid, &s) && s.state != 'D';
}

static bool is_asked(const struct step_thread *t)
{
	return t->interrupted && is_running(t);
}

static bool is_asked_and_awaits_cpu(const struct step_thread *t)
{
	return is_asked(t) && awaits_cpu(t);
}

/* On a machine that is busy, they would come by unseen as soon as they get a CPU. */
static void wait_for_runnable(struct step_tracer *k, const struct step_thread *but)
{
	uint64_t end = monotonic_ns() + ALL_NS;

	wait_for_stops(k, but);
	while (step_tracer_move_count(k, but, awaits_cpu) && monotonic_ns() < end) {
		step_tracer_nap();
		wait_for_stops(k, but);
	}
}

void step_move_wait_for_all(struct step_tracer *k)
{
	wait_for_runnable(k, NULL);
}

/* Who copies its memory runs, or waits for memory. */
static void stop_if_busy(struct step_tracer *k, struct step_thread *t)
{
	struct proc_status s;

	if (is_running(t) && proc_status_read(t->pid, t->tid, &s) && (s.state == 'R' || s.state == 'D'))
		step_threads_interrupt(k, t);
}

void step_move_let_forks_end(struct step_tracer *k)
{
	uint64_t start = monotonic_ns(), took = 0;

	step_threads_each(k, stop_if_busy);
	for (; took < ALL_NS &&
	       step_tracer_move_count(k, NULL, took < COPY_NS ? is_asked : is_asked_and_awaits_cpu);
	     took = monotonic_ns() - start)
		if (!put_next_aside(k))
			step_tracer_nap();
}

static void stop_others(struct step_tracer *k, const struct step_thread *t)
{
	if (!step_tracer_move_count(k, t, is_running))
		return;
	step_threads_each(k, step_threads_interrupt);
	wait_for_runnable(k, t);
}

static bool wait_for_step(pid_t tid, int *status)
{
	uint64_t end = monotonic_ns() + step_move_lift_ns;
	pid_t got;

	while (!(got = waitpid(tid, status, __WALL | WNOHANG)) && monotonic_ns() < end)
		;
	return got == tid;
}

/*
 * A hit of another thread that blocks SIGTRAP removes the program's handler. So the others stand still until the
 * kernel has seen that there is one.
 */
void step_move_deliver_trap(struct step_tracer *k, struct step_thread *t)
{
	const pid_t tid = t->tid;
	int status = 0;

	stop_others(k, t);
	if (!step_trap_waits_for_handler(k, t) && ptrace(PTRACE_INTERRUPT, tid, 0, 0))
		return;
	if (!step_threads_store(t))
		return;
	t->stopped = t->has_regs = false;
	t->interrupted = true;
	t->given_back = k->trap.given_back;
	if (!held_ptrace(PTRACE_CONT, tid, 0, t->signal) && wait_for_step(tid, &status))
		put_aside(k, tid, status);
}

static bool was_step(pid_t tid, int status)
{
	struct stop s = stop_decode(status);
	siginfo_t info;

	return s.kind == STOP_SIGNAL && s.signal == SIGTRAP &&
	       !held_ptrace(PTRACE_GETSIGINFO, tid, 0, &info) && info.si_code == TRAP_TRACE;
}

/* A system call would not end before it has done what it has to do: it is stopped where it begins. */
static bool is_syscall_entry(int status)
{
	return WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80);
}

/* A repeated string instruction is stepped once for each repetition; rip stays until the last one. */
static void stay_if_unfinished(struct step_thread *t, const struct step_break *b, uint32_t number)
{
	if (t->user.rip != b->address)
		return;
	t->at = number + 1;
	t->again = true;
}

/* True: it is on its way, or its stop was put aside. */
static bool lift(struct step_tracer *k, struct step_thread *t, uint32_t number)
{
	const struct step_break *b = &k->brk[number];
	int request = b->move.insn.is_syscall ? PTRACE_SYSCALL : PTRACE_SINGLESTEP;
	pid_t tid = t->tid;
	bool stopped;
	int status = 0;

	stop_others(k, t);
	step_breaks_clear(k, number);
	if (!step_threads_store(t) || held_ptrace(request, tid, 0, 0))
		return true; /* it is being killed */
	t->stopped = t->has_regs = false;
	stopped = wait_for_step(tid, &status);
	step_breaks_set(k, number);
	if (stopped && (was_step(tid, status) || is_syscall_entry(status))) {
		t->stopped = true;
		if (!step_threads_load(t))
			return true;
		step_trap_restore(k, t);
		stay_if_unfinished(t, b, number);
		return false;
	}
	t->reported_at = b->address;
	t->reported_sp = t->user.rsp;
	t->moving = MOVING_LIFT;
	t->under = number;
	if (stopped)
		put_aside(k, tid, status);
	return true;
}

bool step_move(struct step_tracer *k, struct step_thread *t)
{
	uint32_t number = t->at - 1;
	struct step_break *b = &k->brk[number];

	t->at = 0;
	if (!k->breaks[number].planted || !step_threads_load(t) || t->user.rip != b->address)
		return false;
	if (!b->prepared)
		step_tracer_move_prepare(k, b);
	t->again = false;
	if (b->move.way == INSN_EMULATE && emulate(k, t, b))
		return false;
	/* What emulation declines to do at this moment, a copy may do. */
	if (b->move.way != INSN_LIFT && step_copies_get(k, t, b)) {
		t->user.rip = b->copy;
		t->dirty = true;
		t->moving = MOVING_COPY;
		t->under = number;
		t->copy = b->copy;
		t->reported_at = b->address;
		t->reported_sp = t->user.rsp;
		return false;
	}
	return lift(k, t, number);
}

void step_move_done(struct step_tracer *k, struct step_thread *t)
{
	const struct step_break *b = &k->brk[t->under];

	if (step_threads_load(t) && t->moving == MOVING_COPY) {
		t->user.rip = insn_copy_rip(&b->move, b->address, t->copy, b->copy_len, t->user.rip);
		t->dirty = true;
	}
	t->reported_at = 0;
	t->moving = MOVING_NOT;
	if (t->has_regs)
		stay_if_unfinished(t, b, t->under);
}

void step_move_interrupted(struct step_tracer *k, struct step_thread *t)
{
	const struct step_break *b = &k->brk[t->under];

	if (t->moving == MOVING_COPY && t->user.rip == t->copy) {
		t->user.rip = b->address;
		t->dirty = true;
		t->moving = MOVING_NOT;
	} else if (t->moving == MOVING_COPY) {
		step_move_done(k, t);
	} else {
		t->moving = MOVING_NOT;
	}
}
