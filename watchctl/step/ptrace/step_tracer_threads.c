#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/step/ptrace/step_tracer.h"
#include "watchctl/target/inject/trap_action.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/stop.h"
#include "watchctl/target/stop/tracee.h"
#include "watchctl/target/stop/tracing.h"

#define SIGNAL_OF_CANCEL 32 /* glibc's and musl's, the first that no program can have for itself */

#ifndef SI_KERNEL
#define SI_KERNEL 0x80
#endif

/* The table */

static struct step_thread **bucket_of(struct step_tracer *k, pid_t tid)
{
	return &k->bucket[(unsigned int)tid % STEP_BUCKETS];
}

struct step_thread *step_threads_find(struct step_tracer *k, pid_t tid)
{
	struct step_thread *t;

	if (k->last && k->last->tid == tid)
		return k->last;
	for (t = *bucket_of(k, tid); t && t->tid != tid; t = t->next)
		;
	if (t)
		k->last = t;
	return t;
}

void step_threads_each(struct step_tracer *k, void (*fn)(struct step_tracer *k, struct step_thread *t))
{
	struct step_thread *t, *next;
	unsigned int i;

	for (i = 0; i < STEP_BUCKETS; i++)
		for (t = k->bucket[i]; t; t = next) {
			next = t->next;
			fn(k, t);
		}
}

struct step_thread *step_threads_add(struct step_tracer *k, pid_t pid, pid_t tid)
{
	struct step_thread *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->pid = pid;
	t->tid = tid;
	t->next = *bucket_of(k, tid);
	*bucket_of(k, tid) = t;
	k->nthreads++;
	step_deep_restore(k);
	return t;
}

void step_threads_drop(struct step_tracer *k, struct step_thread *t)
{
	struct step_thread **at = bucket_of(k, t->tid);

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	if (k->last == t)
		k->last = NULL;
	k->nthreads--;
	free(t);
}

/* Registers */

bool step_threads_load(struct step_thread *t)
{
	if (t->has_regs)
		return true;
	t->has_regs = !held_ptrace(PTRACE_GETREGS, t->tid, 0, &t->user);
	if (t->has_regs)
		tracing_begin_call_again(t->pid, t->tid, &t->user);
	return t->has_regs;
}

bool step_threads_store(struct step_thread *t)
{
	if (t->dirty && held_ptrace(PTRACE_SETREGS, t->tid, 0, &t->user))
		return false;
	t->dirty = false;
	return true;
}

/* Stops that are put aside */

void step_threads_put_aside(struct step_tracer *k, pid_t tid, int status)
{
	struct late_status *late = malloc(sizeof(*late));

	if (!late)
		return; /* then the thread stays where it is until we end */
	*late = (struct late_status){ NULL, tid, status };
	*k->late_status_end = late;
	k->late_status_end = &late->next;
}

/* rip is behind a breakpoint that is ours, or was. */
static bool is_ours(struct step_tracer *k, struct step_thread *t, uint32_t *ret)
{
	return t->info.si_signo == SIGTRAP && t->info.si_code == SI_KERNEL && step_threads_load(t) &&
	       step_breaks_find(k, t->user.rip - 1, ret) && k->breaks[*ret].known;
}

/*
 * waitpid() makes the kernel forget the SIGTRAP that the thread is about to get: from then on it would just
 * go on, from where it stands, if we were killed. So rip is put back to the breakpoint before that.
 */
static void secure(struct step_tracer *k, pid_t tid)
{
	struct step_thread *t = step_threads_find(k, tid);
	uint32_t number = 0;

	if (!t || held_ptrace(PTRACE_GETSIGINFO, tid, 0, &t->info))
		return;
	t->has_info = true;
	t->has_regs = t->dirty = false;
	if (!is_ours(k, t, &number)) {
		t->merged = t->info.si_code <= 0 && step_threads_load(t) && step_trap_is_merged(k, t);
		if (!t->merged || t->moving != MOVING_NOT || !step_breaks_find(k, t->user.rip - 1, &number))
			return;
	}
	t->hit = number + 1;
	t->user.rip--;
	t->dirty = held_ptrace(PTRACE_POKEUSER, tid, offsetof(struct user, regs.rip), t->user.rip) != 0;
}

pid_t step_threads_take(struct step_tracer *k, int *status, int flags)
{
	siginfo_t info;

	info.si_pid = 0;
	if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOWAIT | __WALL | flags))
		return -1;
	if (!info.si_pid)
		return 0;
	if (info.si_code == CLD_TRAPPED && info.si_status == SIGTRAP)
		secure(k, info.si_pid);
	return waitpid(info.si_pid, status, __WALL | WNOHANG);
}

pid_t step_threads_wait(struct step_tracer *k, int *status, int flags)
{
	struct late_status *late = k->late_status;
	pid_t tid;

	if (!late)
		return step_threads_take(k, status, flags);
	tid = late->tid;
	*status = late->status;
	k->late_status = late->next;
	if (!k->late_status)
		k->late_status_end = &k->late_status;
	free(late);
	return tid;
}

/* Going on */

void step_threads_interrupt(struct step_tracer *k, struct step_thread *t)
{
	if (t->stopped || t->interrupted || t->dead)
		return;
	if (!ptrace(PTRACE_INTERRUPT, t->tid, 0, 0))
		t->interrupted = t->disturbed = true;
	else if (k->leaving && !proc_is_ending(k->pid, t->tid))
		k->wants_leave = true; /* nobody is left behind: again */
	else
		t->dead = true;
}

/* A breakpoint of ours, or a step, that it has run into, and whose SIGTRAP is queued: it must be met by us.
 */
bool step_threads_has_trap(const struct step_thread *t)
{
	siginfo_t info[TRACEE_QUEUED];
	long n = tracee_queued(t->tid, 0, info), i;

	for (i = 0; i < n; i++)
		if (info[i].si_signo == SIGTRAP && info[i].si_code > 0)
			return true;
	return false;
}

static void go_on(struct step_tracer *k, struct step_thread *t)
{
	bool steps = t->moving != MOVING_NOT || t->stepping;

	if (t->signal == SIGTRAP && !t->requeued && !t->group && k->trap.has_action && k->nthreads > 1) {
		step_move_deliver_trap(k, t);
		return;
	}

	if (!step_threads_store(t))
		return; /* it is being killed: its end will be reported */
	t->stopped = t->has_regs = false;
	t->given_back = k->trap.given_back;
	if (t->group)
		held_ptrace(PTRACE_LISTEN, t->tid, 0, 0);
	else
		held_ptrace(steps		     ? PTRACE_SINGLESTEP
			    : step_input_wants(k, t) ? PTRACE_SYSCALL
						     : PTRACE_CONT,
			    t->tid, 0, t->signal);
}

static bool are_past(const struct step_tracer *k)
{
	const struct step_thread *t;
	struct proc_status s;
	unsigned int i;

	for (i = 0; i < STEP_BUCKETS; i++)
		for (t = k->bucket[i]; t; t = t->next)
			if (!t->guest && !t->dead && !t->past && proc_status_read(t->pid, t->tid, &s) &&
			    s.state != 'Z' && s.state != 'X')
				return false;
	return true;
}

/*
 * That the program ignores SIGTRAP, or its handler, which a breakpoint makes the kernel forget, is put back by a
 * thread of it once no thread meets one any more and while all are traced still: what somebody sends it in between
 * gets to us.
 */
static bool may_leave(struct step_tracer *k, struct step_thread *t)
{
	struct tracee held;

	if (!step_trap_gathers(k) || t->guest)
		return true;
	t->past = true;
	if (monotonic_ns() - k->started_ns < TRAP_ACTION_IGNORE_NS) {
		if (!are_past(k)) {
			go_on(k, t);
			return false;
		}
		if (t->signal || !step_threads_store(t) ||
		    (k->ignores_trap && !tracee_hold(t->pid, t->tid, &held))) {
			go_on(k, t);
			step_threads_interrupt(k, t);
			return false;
		}
		if (k->ignores_trap)
			wc_error_free(trap_action_ignore(k->pid, &held));
		else
			step_trap_leave(k, t);
	}
	k->may_leave = k->wants_leave = true;
	return true;
}

/*
 * The last one takes our memory out of the program. What it is about to get would be lost by that: it gets it first,
 * and stops again: false. Where signals do not end, the memory stays.
 */
static bool take_copies_out(struct step_tracer *k, struct step_thread *t)
{
	if (!t->signal) {
		step_copies_unmap(k, t);
		return true;
	}
	if (monotonic_ns() - k->started_ns >= TRAP_ACTION_IGNORE_NS)
		return true;
	go_on(k, t);
	step_threads_interrupt(k, t);
	return false;
}

/* Lets go of it, as it would be without us. */
static void step_tracer_threads_leave(struct step_tracer *k, struct step_thread *t)
{
	t->stepping = false;
	if (t->requeued) {
		go_on(k, t);
		return;
	}
	/* In the middle of a system call its registers must stay; and what it waits for may never come. */
	if (step_threads_has_trap(t) || t->in_syscall) {
		t->group = false;
		go_on(k, t);
		step_threads_interrupt(k, t);
		return;
	}
	if (t->moving != MOVING_NOT) {
		step_threads_load(t);
		step_move_interrupted(k, t);
	}
	if (!may_leave(k, t))
		return;
	if (k->nthreads == 1 && !t->guest && !take_copies_out(k, t))
		return;
	step_threads_store(t);
	/* Else it is being killed: its end will be reported. */
	if (!held_ptrace(PTRACE_DETACH, t->tid, 0, t->signal))
		step_threads_drop(k, t);
	else
		t->stopped = false;
}

/*
 * It waits, perhaps for long: not where it was about to get the SIGTRAP of the breakpoint, which would kill
 * it if we were killed, but at a stop from which it can just go on.
 */
static void rest(struct step_thread *t)
{
	if (!t->trapped || !step_threads_store(t))
		return;
	t->trapped = false;
	if (ptrace(PTRACE_INTERRUPT, t->tid, 0, 0))
		return;
	t->interrupted = t->disturbed = true;
	t->stopped = t->has_regs = false;
	held_ptrace(PTRACE_CONT, t->tid, 0, 0);
}

void step_threads_settle(struct step_tracer *k, struct step_thread *t)
{
	if (!t->stopped)
		return;
	if (k->leaving) {
		t->holds = 0;
		step_tracer_threads_leave(k, t);
		return;
	}
	if (t->holds) {
		rest(t);
		return;
	}
	while (!t->group && !t->signal && t->moving == MOVING_NOT) {
		step_hit_instruction(k, t);
		if (!t->at)
			break;
		if (step_move(k, t))
			return;
	}
	go_on(k, t);
}

/* Stops */

static void report_signal(struct step_tracer *k, struct step_thread *t, int sig, int code)
{
	const struct track_call *in = track_innermost(k->track, t->tid);
	struct step_record r = {
		.kind = STEP_SIGNAL, .signal = sig, .code = code, .inside = in ? in->call : 0
	};

	if (!k->recording || !t->recorded || tracing_signal_is_ignored(t->pid, t->tid, sig))
		return;
	step_state_regs(t, &r.regs);
	step_report_of(k, t, &r);
}

/* A SIGTRAP of the program's own, which it ignored until a hit made the kernel forget that. */
static bool was_ignored(const struct step_tracer *k, const struct step_thread *t, const siginfo_t *info)
{
	struct proc_status s;

	/*
	 * What the processor raises kills even where it is ignored. What is sent is not passed on even where
	 * it is still ignored: the first breakpoint of any thread may come before the kernel looks.
	 */
	return k->ignores_trap && info->si_code <= 0 && proc_status_read(t->pid, t->tid, &s) &&
	       !(s.caught & PROC_SIGTRAP);
}

static void take_hit(struct step_tracer *k, struct step_thread *t)
{
	uint32_t number = t->hit - 1;

	t->hit = 0;
	k->box->counts.stops++;
	t->moving = MOVING_NOT;
	if (!k->breaks[number].planted)
		return; /* was taken out meanwhile */
	t->at = number + 1;
	if (!k->leaving)
		step_hit(k, t, number);
}

/* A step over a system call ends with the other code (user_single_step_report() in arch/x86/kernel/ptrace.c). */
static bool is_step(const siginfo_t *info)
{
	return info->si_code == TRAP_TRACE || info->si_code == TRAP_BRKPT;
}

/* True: the program must not get it. */
static bool take_trap(struct step_tracer *k, struct step_thread *t)
{
	if (is_step(&t->info) && (t->moving != MOVING_NOT || t->stepping)) {
		if (t->info.si_code == TRAP_BRKPT)
			step_input_stepped(k, t);
		if (t->moving != MOVING_NOT)
			step_move_done(k, t);
		step_trap_restore(k, t);
		return true;
	}
	if (!t->hit)
		return was_ignored(k, t, &t->info);
	step_trap_restore(k, t);
	step_trap_look(k, t);
	take_hit(k, t);
	return true;
}

/* The hit is looked at once the program's own SIGTRAP waits again. */
static void take_merged(struct step_tracer *k, struct step_thread *t)
{
	t->merged = false;
	if (t->moving != MOVING_NOT)
		step_move_done(k, t);
	step_trap_requeue(t);
}

static void undo_eintr(struct step_thread *t)
{
	if (!step_threads_load(t) || (long)t->user.rax != -EINTR)
		return;
	tracing_undo_false_eintr(t->pid, t->tid);
	t->has_regs = false;
}

/* To a traced thread come even the signals that it ignores, and they wake it up. */
static void on_signal(struct step_tracer *k, struct step_thread *t, int sig)
{
	if (!t->has_info)
		secure(k, t->tid);
	if (!t->has_info)
		memset(&t->info, 0, sizeof(t->info));
	if (t->merged) {
		take_merged(k, t);
		return;
	}
	t->trapped = sig == SIGTRAP && take_trap(k, t);
	if (t->trapped) {
		if (t->info.si_code <= 0) /* sent, and ignored */
			undo_eintr(t);
		return;
	}
	if ((sig == SIGSTOP || sig == SIGCONT) && (t->holds & HOLD_START))
		return; /* ours, from taking a launched program over */
	if (sig == SIGTRAP && step_trap_waits_for_handler(k, t))
		return;
	t->signal = sig;
	if (!step_threads_load(t))
		return;
	if (t->moving != MOVING_NOT)
		step_move_interrupted(k, t);
	report_signal(k, t, sig, t->info.si_code);
	step_trap_before_signal(k, t, sig);
	t->handling = true;
	t->cancelled |= sig == SIGNAL_OF_CANCEL;
	if (tracing_signal_is_ignored(t->pid, t->tid, sig))
		undo_eintr(t);
}

static void on_group_stop(const struct step_tracer *k, struct step_thread *t)
{
	int tries = 3;

	if (t->holds & HOLD_START) /* the stop was ours: it stays where it is, but not by job control */
		while (kill(k->pid, SIGCONT) && --tries)
			;
	else
		t->group = true;
}

static void on_first_stop(struct step_tracer *k, struct step_thread *t)
{
	uint64_t mask;

	t->met = true;
	if (!held_ptrace(PTRACE_GETSIGMASK, t->tid, sizeof(mask), &mask) && (mask & PROC_SIGTRAP))
		t->sigmask = mask;
	if (!t->born)
		t->holds |= HOLD_BIRTH;
	else if (t->recorded && step_threads_load(t))
		step_report_thread(k, t);
}

/* A new program has none of our breakpoints. */
static void on_exec(struct step_tracer *k, struct step_thread *t)
{
	struct step_thread *other, *next;
	struct step_record r = { .kind = STEP_EXEC, .pid = k->pid, .tid = t->tid };
	unsigned int i;

	if (t->guest) {
		held_ptrace(PTRACE_DETACH, t->tid, 0, 0);
		step_threads_drop(k, t);
		return;
	}
	for (i = 0; i < STEP_BUCKETS; i++)
		for (other = k->bucket[i]; other; other = next) {
			next = other->next;
			if (other != t && other->pid == k->pid)
				step_threads_drop(k, other);
		}
	step_breaks_forget_all(k);
	step_range_over(k, t->tid, RANGE_EXECED, RETURN_EXEC);
	step_report(k, &r);
	k->ended = true;
	step_tracer_leave(k);
}

static void report_thread_end(struct step_tracer *k, struct step_thread *t, enum return_how how)
{
	struct step_record r = { .kind = STEP_THREAD_END };
	const struct track_end *ended;
	size_t n;
	bool reported = t->reported;

	if (k->from_tid == t->tid)
		k->from_tid = 0; /* its end is not that of a call, but of the thread */
	if (step_report_failed(k, track_thread_end(k->track, t->tid, how, &ended, &n)) || !k->recording)
		return;
	step_hit_ended(k, t, ended, n);
	if (reported)
		step_report_of(k, t, &r);
}

/* One that has the program's memory for some time still, if there is any. */
static void choose_vm_tid(struct step_tracer *k)
{
	const struct step_thread *t;
	unsigned int i;

	for (i = 0; i < STEP_BUCKETS; i++)
		for (t = k->bucket[i]; t; t = t->next)
			if (!t->guest && !t->dead && !t->ending) {
				k->vm_tid = t->tid;
				return;
			}
}

/* It is about to end, by itself or with all others: PTRACE_EVENT_EXIT. */
static void on_exiting(struct step_tracer *k, struct step_thread *t)
{
	t->ending = true;
	if (k->vm_tid == t->tid)
		choose_vm_tid(k);
	t->group_exits = !step_threads_load(t) || (long)t->user.orig_rax != SYS_exit;
	k->exiting |= t->group_exits && !t->guest;
	t->moving = MOVING_NOT;
	t->at = 0;
	t->stepping = false;
}

static void report_exit(struct step_tracer *k)
{
	struct step_record r = { .kind = STEP_EXIT, .pid = k->pid, .tid = k->pid, .status = k->exit_status };

	if (k->ended)
		return;
	k->ended = true;
	step_range_over(k, k->pid, RANGE_EXITED, RETURN_PROCESS_EXIT);
	step_breaks_forget_all(k);
	step_report(k, &r);
	step_tracer_leave(k);
}

static bool is_last(const struct step_tracer *k)
{
	const struct step_thread *t;
	unsigned int i;

	for (i = 0; i < STEP_BUCKETS; i++)
		for (t = k->bucket[i]; t; t = t->next)
			if (t->pid == k->pid)
				return false;
	return true;
}

static void on_end(struct step_tracer *k, struct step_thread *t, int status)
{
	bool guest = t->guest;

	if (!guest) {
		enum return_how how = RETURN_PROCESS_EXIT;

		if (!t->group_exits && WIFEXITED(status) && k->nthreads > 1)
			how = t->cancelled ? RETURN_CANCELLED : RETURN_THREAD_EXIT;
		if (t->tid == k->pid)
			k->exit_status = status;
		k->exiting |= how == RETURN_PROCESS_EXIT;
		report_thread_end(k, t, how);
		step_range_thread_ended(k, t);
	}
	t->ending = true;
	if (k->vm_tid == t->tid)
		choose_vm_tid(k);
	step_threads_drop(k, t);
	if (!guest && is_last(k))
		report_exit(k);
}

/* The kernel knows none of them any more: their ends were told to somebody else who waited for them. */
void step_threads_gone(struct step_tracer *k)
{
	while (k->nthreads) {
		unsigned int i;

		for (i = 0; i < STEP_BUCKETS; i++)
			if (k->bucket[i])
				on_end(k, k->bucket[i], SIGKILL);
	}
}

static void on_trap_stop(struct step_tracer *k, struct step_thread *t)
{
	if (t->disturbed)
		tracing_undo_false_eintr(t->pid, t->tid);
	t->disturbed = false;
	if (t->entering)
		step_trap_at_handler(k, t);
	if (t->requeued)
		step_trap_requeued(k, t);
	if (t->hit && step_threads_load(t))
		take_hit(k, t);
}

void step_threads_on_status(struct step_tracer *k, pid_t tid, int status)
{
	struct stop s = stop_decode(status);
	struct step_thread *t = step_threads_find(k, tid);

	step_births_met(k, tid);
	if (s.kind == STOP_ENDED) {
		if (t)
			on_end(k, t, status);
		return;
	}
	if (!t)
		t = step_births_meet(k, tid);
	if (!t)
		return;
	t->stopped = true;
	t->interrupted = false; /* any stop makes the kernel forget the one that it was asked for */
	t->trapped = t->group = t->dead = t->aside = t->in_syscall = false;
	if (!t->has_info)
		t->has_regs = t->dirty = false;
	t->signal = 0;
	if (!t->guest && s.kind != STOP_EXITING)
		k->vm_tid = tid;
	switch (s.kind) {
	case STOP_SIGNAL:
		on_signal(k, t, s.signal);
		t->has_info = false;
		if (!t->requeued)
			t->hit = 0;
		break;
	case STOP_GROUP:
		on_group_stop(k, t);
		break;
	case STOP_TRAP:
		on_trap_stop(k, t);
		break;
	case STOP_CLONED:
		step_births_on_clone(k, t);
		break;
	case STOP_EXECED:
		on_exec(k, t);
		t = step_threads_find(k, tid); /* NULL: let go of */
		break;
	case STOP_EXITING:
		on_exiting(k, t);
		break;
	case STOP_OTHER: /* it begins or ends a system call */
		if (t->moving == MOVING_LIFT)
			step_move_done(k, t);
		step_input_at_syscall(k, t);
		break;
	default:
		break;
	}
	if (t && !t->met)
		on_first_stop(k, t);
	if (t && (t->holds & HOLD_PLAN))
		step_hit_planned(k, t);
	if (t) {
		step_threads_load(t); /* its call begins again if need be */
		step_threads_settle(k, t);
	}
}
