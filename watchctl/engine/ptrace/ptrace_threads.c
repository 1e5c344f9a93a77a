#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/kcmp.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/engine/plan/engine.h"
#include "watchctl/engine/ptrace/ptrace_tracer.h"
#include "watchctl/target/inject/trap_action.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/stop.h"
#include "watchctl/target/stop/tracee.h"
#include "watchctl/target/stop/tracing.h"

#define STAND_NS 20000000ull /* so long a stop is waited for: who takes longer is in the kernel */
#define CPU_NS \
	500000000ull /* or so long, while it has no CPU to stop on: a busy machine's time is nobody's fault */
#define CPU_LOOK_NS 500000

/* The table */

static struct traced **bucket_of(struct tracer *k, pid_t tid)
{
	return &k->bucket[(unsigned int)tid % TRACER_BUCKETS];
}

struct traced *threads_find(struct tracer *k, pid_t tid)
{
	struct traced *t;

	if (k->last && k->last->tid == tid)
		return k->last;
	for (t = *bucket_of(k, tid); t && t->tid != tid; t = t->next)
		;
	if (t)
		k->last = t;
	return t;
}

void threads_each(struct tracer *k, void (*fn)(struct tracer *k, struct traced *t))
{
	struct traced *t, *next;
	unsigned int i;

	for (i = 0; i < TRACER_BUCKETS; i++)
		for (t = k->bucket[i]; t; t = next) {
			next = t->next;
			fn(k, t);
		}
}

static struct traced_process *find_process(const struct tracer *k, pid_t pid)
{
	struct traced_process *p;

	for (p = k->processes; p && p->pid != pid; p = p->next)
		;
	return p;
}

/* So that the guard need not look for those that it must stop at once. */
static struct box_thread *report_of_thread(struct tracer *k, pid_t tid)
{
	struct ptrace_box *box = k->box;
	uint32_t i = k->reported_free;

	while (i < BOX_THREADS && box->thread[i].tid)
		i++;
	k->reported_free = i < BOX_THREADS ? i + 1 : i;
	if (i >= box->nthreads)
		__atomic_store_n(&box->nthreads, i + 1, __ATOMIC_RELEASE);
	if (i == BOX_THREADS)
		return NULL;
	box->thread[i].lacks = 0;
	box->thread[i].thread_pointer = 0;
	__atomic_store_n(&box->thread[i].tid, tid, __ATOMIC_RELEASE);
	return &box->thread[i];
}

static void unreport_of_thread(struct tracer *k, struct box_thread *reported)
{
	if (!reported)
		return;
	__atomic_store_n(&reported->tid, 0, __ATOMIC_RELEASE);
	if (reported - k->box->thread < (ptrdiff_t)k->reported_free)
		k->reported_free = (uint32_t)(reported - k->box->thread);
}

/* So that the guard knows whose registers may have to be cleared. */
static struct box_process *report_of_process(struct tracer *k, pid_t pid)
{
	unsigned int i;

	for (i = 0; i < BOX_PROCESSES; i++) {
		struct box_process *b = &k->box->process[i];

		if (b->pid)
			continue;
		b->stopped = false;
		__atomic_store_n(&b->pid, pid, __ATOMIC_RELEASE);
		return b;
	}
	return NULL;
}

static void drop_memory(struct traced_memory *m)
{
	if (m && !--m->users)
		free(m);
}

static struct traced_memory *memory_of(pid_t pid, const struct traced_process *parent)
{
	struct traced_memory *m;

	if (parent && !syscall(SYS_kcmp, pid, parent->pid, KCMP_VM, 0, 0))
		m = parent->memory;
	else
		m = calloc(1, sizeof(*m));
	if (m)
		m->users++;
	return m;
}

static void renew_memory(struct traced_process *p)
{
	struct traced_memory *m = p->memory->users > 1 ? calloc(1, sizeof(*m)) : NULL;

	if (m) {
		m->users = 1;
		drop_memory(p->memory);
		p->memory = m;
	}
	p->memory->known = 0;
}

/* @parent: NULL, it is the target. NULL: no memory, or more processes than can be looked after. */
static struct traced_process *add_process(struct tracer *k, pid_t pid, const struct traced_process *parent)
{
	struct traced_process *p = calloc(1, sizeof(*p));
	struct proc_status s;

	if (p)
		p->memory = memory_of(pid, parent);
	if (!p || !p->memory || !(p->reported = report_of_process(k, pid))) {
		if (p)
			drop_memory(p->memory);
		free(p);
		return NULL;
	}
	p->pid = pid;
	if (!proc_status_read(pid, pid, &s))
		s = (struct proc_status){ .ids = { pid } };
	if (pid == k->pid)
		k->depth = s.depth;
	p->inner = proc_id_at(&s, k->depth);
	p->program = parent ? parent->program : k->box->execs;
	p->next = k->processes;
	k->processes = p;
	return p;
}

static void drop_process(struct tracer *k, struct traced_process *p)
{
	struct traced_process **at = &k->processes;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	__atomic_store_n(&p->reported->pid, 0, __ATOMIC_RELEASE);
	drop_memory(p->memory);
	free(p);
}

static struct traced *add_thread(struct tracer *k, struct traced_process *p, pid_t tid, pid_t inner)
{
	struct traced *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct traced){
		.next = *bucket_of(k, tid), .process = p, .tid = tid, .inner = inner, .name_fd = -1
	};
	*bucket_of(k, tid) = t;
	t->reported = report_of_thread(k, tid);
	p->nthreads++;
	k->nthreads++;
	k->begun = true;
	return t;
}

static void drop_thread(struct tracer *k, struct traced *t)
{
	struct traced **at = bucket_of(k, t->tid);

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	arm_drop_query(k, t);
	unreport_of_thread(k, t->reported);
	closep(&t->name_fd);
	if (!--t->process->nthreads)
		drop_process(k, t->process);
	if (k->last == t)
		k->last = NULL;
	k->nthreads--;
	k->asides -= t->put_aside;
	free(t);
}

/* Coming */

static long options_of(const struct tracer *k)
{
	long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEEXEC;

	if (k->box->follow_fork)
		options |= PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
	else if (k->ignores_trap)
		options |= PTRACE_O_TRACEFORK; /* for let_stranger_go() */
	return options;
}

static struct wc_error *seize_one(void *ctx, pid_t tid, bool *ret_new)
{
	struct tracer *k = ctx;
	struct traced_process *p = find_process(k, k->pid);
	struct proc_status s;
	struct traced *t;
	int error;

	if (threads_find(k, tid))
		return NULL;
	error = tracing_seize(k->pid, tid, options_of(k));
	if (error) {
		if (error == ESRCH || !proc_status_read(k->pid, tid, &s) || s.state == 'Z' || s.state == 'X')
			return NULL;
		/* Born since we began, of a thread that is ours already: then so is it. */
		return s.tracer == getpid() ? NULL
					    : tracing_refused(k->pid, tid, error, "use another engine");
	}
	*ret_new = true;
	if (!proc_status_read(k->pid, tid, &s))
		s = (struct proc_status){ .ids = { tid } };
	t = threads_find(k, tid);
	if (!t && (p || (p = add_process(k, k->pid, NULL))))
		t = add_thread(k, p, tid, proc_id_at(&s, k->depth));
	if (!t)
		return &wc_enomem;
	t->generation = k->generation;
	if (k->box->held)
		t->holds |= HOLD_START;
	return NULL;
}

struct wc_error *threads_seize(struct tracer *k)
{
	struct wc_error *err = tracing_seize_all(k->pid, seize_one, k);

	if (!err && !k->nthreads)
		err = wc_error_new(WC_ETARGET, "process %d ended while it was being traced", k->pid);
	return err;
}

/*
 * Traced from its birth, because its maker is; it has not run yet. @maker: NULL if its first stop came before
 * that of its maker, which then has not ended. NULL: not one to be watched.
 */
static struct traced *meet(struct tracer *k, pid_t tid, struct traced_process *maker)
{
	struct traced_process *p, *parent;
	struct proc_status s;
	struct traced *t;

	if (!proc_status_read(tid, tid, &s) || s.tracer != getpid())
		return NULL;
	p = find_process(k, s.tgid);
	if (!p) {
		if (!k->box->follow_fork || s.tgid != tid)
			return NULL;
		parent = maker ? maker : find_process(k, s.parent);
		p = add_process(k, tid, parent);
		if (!p) {
			tracer_note(k, "child process %d is not watched: no more than %u are followed", tid,
				    BOX_PROCESSES);
			return NULL;
		}
	}
	t = add_thread(k, p, tid, proc_id_at(&s, k->depth));
	if (t)
		arm_forget(t); /* debug registers are not inherited */
	return t;
}

/* Going on */

void threads_interrupt(struct tracer *k, struct traced *t)
{
	if (t->stopped || t->interrupted || t->dead)
		return;
	if (!ptrace(PTRACE_INTERRUPT, t->tid, 0, 0))
		t->interrupted = t->disturbed = true;
	else
		t->dead = true;
}

void threads_go_on(const struct tracer *k, struct traced *t)
{
	t->stopped = false;
	t->given_back = k->trap.given_back;
	t->held_ns = 0;
	if (t->group)
		held_ptrace(PTRACE_LISTEN, t->tid, 0, 0);
	else
		held_ptrace(PTRACE_CONT, t->tid, 0, t->signal);
}

static void look_aside(struct tracer *k, struct traced *t)
{
	if (t->stopped || t->put_aside || waitpid(t->tid, &t->aside, __WALL | WNOHANG) != t->tid)
		return;
	t->put_aside = true;
	k->asides++;
}

static bool is_running(const struct traced *t)
{
	return !t->stopped && !t->put_aside && !t->dead;
}

static unsigned int count_running(struct tracer *k, const struct traced *but,
				  void (*fn)(struct tracer *, struct traced *))
{
	unsigned int i, n = 0;
	struct traced *t;

	for (i = 0; i < TRACER_BUCKETS; i++)
		for (t = k->bucket[i]; t; t = t->next) {
			if (t == but || t->process != but->process)
				continue;
			fn(k, t);
			n += is_running(t);
		}
	return n;
}

/* It needs nothing but a processor to stop. */
static bool awaits_cpu(const struct traced *t)
{
	struct proc_status s;

	return is_running(t) && proc_status_read(t->process->pid, t->tid, &s) && s.state == 'R';
}

static bool any_awaits_cpu(const struct tracer *k, const struct traced *but)
{
	for (unsigned int i = 0; i < TRACER_BUCKETS; i++)
		for (const struct traced *t = k->bucket[i]; t; t = t->next)
			if (t != but && t->process == but->process && awaits_cpu(t))
				return true;
	return false;
}

static void nap(uint64_t waited)
{
	if (waited < STAND_NS)
		sched_yield();
	else
		nanosleep(&(struct timespec){ .tv_nsec = CPU_LOOK_NS }, NULL);
}

void threads_stop_others(struct tracer *k, const struct traced *t)
{
	const uint64_t begin = monotonic_ns();
	uint64_t waited = 0;

	count_running(k, t, threads_interrupt);
	while (count_running(k, t, look_aside) &&
	       (waited < STAND_NS || (waited < CPU_NS && any_awaits_cpu(k, t)))) {
		nap(waited);
		waited = monotonic_ns() - begin;
	}
}

void threads_wait_for(struct tracer *k, struct traced *t)
{
	const uint64_t begin = monotonic_ns();
	uint64_t waited = 0;

	for (look_aside(k, t); !t->put_aside && (waited < STAND_NS || (waited < CPU_NS && awaits_cpu(t)));
	     look_aside(k, t)) {
		nap(waited);
		waited = monotonic_ns() - begin;
	}
}

bool threads_next_aside(struct tracer *k, pid_t *ret_tid, int *ret_status)
{
	unsigned int i;
	struct traced *t;

	for (i = 0; i < TRACER_BUCKETS && k->asides; i++)
		for (t = k->bucket[i]; t; t = t->next) {
			if (!t->put_aside)
				continue;
			t->put_aside = false;
			k->asides--;
			*ret_tid = t->tid;
			*ret_status = t->aside;
			return true;
		}
	return false;
}

/* Lets go of it, as it was found. */
static void ptrace_threads_leave(struct tracer *k, struct traced *t)
{
	/* Else it is being killed: its end will be reported. */
	if (!held_ptrace(PTRACE_DETACH, t->tid, 0, t->signal))
		drop_thread(k, t);
	else
		t->stopped = false;
}

/*
 * A stop of ours can come between a hit and its SIGTRAP. That must be met while the register is still known
 * as ours, and while the thread is still traced: it would be killed by it.
 */
static bool go_to_pending_hit(struct tracer *k, struct traced *t)
{
	if (!hit_is_pending(t))
		return false;
	t->group = false;
	threads_go_on(k, t);
	threads_interrupt(k, t);
	return true;
}

bool threads_are_updated(const struct tracer *k, const struct traced_process *p)
{
	const struct traced *t;
	unsigned int i;

	for (i = 0; i < TRACER_BUCKETS; i++)
		for (t = k->bucket[i]; t; t = t->next)
			if ((!p || t->process == p) && !t->dead && t->generation != k->generation)
				return false;
	return true;
}

static void let_leave(struct tracer *k, struct traced_process *p)
{
	struct traced *t;
	unsigned int i;

	p->may_leave = true;
	for (i = 0; i < TRACER_BUCKETS; i++)
		for (t = k->bucket[i]; t; t = t->next)
			if (t->process == p)
				threads_interrupt(k, t);
}

/*
 * That the process ignores SIGTRAP, which a hit makes the kernel forget, is put back by a thread of it once
 * no more hits can come and while all are traced still: one that somebody sends it in between gets to us.
 */
static bool may_leave(struct tracer *k, struct traced *t)
{
	struct traced_process *p = t->process;
	struct tracee held;

	if (!k->ignores_trap || p->may_leave)
		return true;
	if (monotonic_ns() - k->leaving_ns < TRAP_ACTION_IGNORE_NS) {
		if (!threads_are_updated(k, p)) {
			threads_go_on(k, t);
			return false;
		}
		if (t->signal || !tracee_hold(p->pid, t->tid, &held)) {
			threads_go_on(k, t);
			threads_interrupt(k, t);
			return false;
		}
		wc_error_free(trap_action_ignore(p->pid, &held));
	}
	let_leave(k, p);
	return true;
}

void threads_settle(struct tracer *k, struct traced *t)
{
	if (!t->stopped)
		return;
	if (t->requeued) {
		threads_go_on(k, t);
		return;
	}
	if (k->leaving) {
		arm_drop_query(k, t);
		t->holds = 0;
	}
	if (t->generation != k->generation || k->leaving) {
		if (!(t->holds & HOLD_QUERY) && go_to_pending_hit(k, t))
			return;
		if (!(t->holds & HOLD_QUERY))
			arm_thread(k, t);
	}
	if (k->leaving && may_leave(k, t))
		ptrace_threads_leave(k, t);
	else if (!k->leaving && !t->holds)
		threads_go_on(k, t);
}

/* Stops */

/* To a traced thread come even the signals that it ignores, and they wake it up. */
static void on_signal(struct tracer *k, struct traced *t, int sig)
{
	struct user_regs_struct regs;
	bool ignored = false;

	if (sig == SIGTRAP && hit_take(k, t))
		return;
	if (sig == SIGTRAP && trap_deliver(k, t, sig))
		return;
	if (sig == SIGTRAP) {
		trap_look_for_handler(k, t->tid);
		ignored = trap_was_ignored(k, t);
	}
	if (sig == SIGSTOP && (t->holds & HOLD_START))
		return; /* ours, from taking a launched program over */
	if (!ignored)
		t->signal = sig;
	if (!held_ptrace(PTRACE_GETREGS, t->tid, 0, &regs) && (long)regs.rax == -EINTR &&
	    (ignored || tracing_signal_is_ignored(t->process->pid, t->tid, sig)))
		tracing_undo_false_eintr(t->process->pid, t->tid);
}

static void on_group_stop(const struct tracer *k, struct traced *t)
{
	if (t->holds & HOLD_START) {
		kill(k->pid, SIGCONT); /* the stop was ours: it stays where it is, but not by job control */
		return;
	}
	trap_requeue_ends(t);
	t->group = true;
	t->process->reported->stopped = true;
}

/* The registers of all threads but one are gone, and that one's are empty. */
static void on_exec(struct tracer *k, struct traced *t)
{
	struct traced_process *p = t->process;
	struct traced *other, *next;
	unsigned int i;

	for (i = 0; i < TRACER_BUCKETS; i++)
		for (other = k->bucket[i]; other; other = next) {
			next = other->next;
			if (other != t && other->process == p)
				drop_thread(k, other);
		}
	arm_drop_query(k, t);
	arm_forget(t);
	t->holds = 0;
	if (p->pid == k->pid) {
		renew_memory(p);
		p->program = ++k->box->execs;
		k->catches_trap = k->trap.has_action = false; /* no handler outlives its program */
		if (k->box->starts_anew)
			__atomic_store_n(&k->ctl->patience_ns, HOLD_START_NS, __ATOMIC_RELAXED);
		if (!tracer_hold(k, t, HOLD_EXEC))
			k->ctl->unheld++;
		__atomic_store_n(&k->box->state, BOX_EXECED, __ATOMIC_RELEASE);
		tracer_wake(k);
	}
	if (p->pid != k->pid)
		__atomic_add_fetch(&k->box->departures, 1, __ATOMIC_RELAXED);
	if (p->pid != k->pid || !k->box->follow_exec) {
		held_ptrace(PTRACE_DETACH, t->tid, 0, 0);
		drop_thread(k, t);
	}
}

/* The maker may have ended by the time its child's first stop comes: a child is known from here on. */
static void on_cloned(struct tracer *k, const struct traced *maker)
{
	unsigned long made = 0;

	if (!held_ptrace(PTRACE_GETEVENTMSG, maker->tid, 0, &made) && !threads_find(k, (pid_t)made))
		meet(k, (pid_t)made, maker->process);
}

void threads_all_ended(struct tracer *k)
{
	if (!k->begun || k->nthreads || k->box->state != BOX_TRACING)
		return;
	__atomic_store_n(&k->box->state, BOX_EXITED, __ATOMIC_RELEASE);
	tracer_wake(k);
}

/*
 * One that is not watched: a child, before its first instruction. If it was forked after a hit, it has got
 * the default action of SIGTRAP where the program ignores that.
 */
static void let_stranger_go(const struct tracer *k, pid_t tid)
{
	struct proc_status s;
	struct tracee held;

	if (k->ignores_trap && proc_status_read(tid, tid, &s) && s.tgid == tid &&
	    tracee_hold(tid, tid, &held))
		wc_error_free(trap_action_ignore(tid, &held));
	held_ptrace(PTRACE_DETACH, tid, 0, 0);
}

void threads_on_status(struct tracer *k, pid_t tid, int status)
{
	struct stop s = stop_decode(status);
	struct traced *t = threads_find(k, tid);

	if (s.kind == STOP_ENDED) {
		if (t)
			drop_thread(k, t);
		return;
	}
	if (!t)
		t = meet(k, tid, NULL);
	if (!t) {
		let_stranger_go(k, tid);
		return;
	}
	t->stopped = true;
	t->group = t->dead = false; /* by exec, another thread takes a dead leader's place */
	t->interrupted = false;	    /* any stop makes the kernel forget the one that it was asked for */
	t->signal = 0;
	switch (s.kind) {
	case STOP_SIGNAL:
		on_signal(k, t, s.signal);
		break;
	case STOP_GROUP:
		on_group_stop(k, t);
		break;
	case STOP_TRAP:
		t->process->reported->stopped = false;
		if (t->requeued)
			trap_requeued(k, t);
		if (t->disturbed)
			tracing_undo_false_eintr(t->process->pid, t->tid);
		t->disturbed = false;
		break;
	case STOP_CLONED:
		on_cloned(k, t);
		break;
	case STOP_EXECED:
		on_exec(k, t);
		t = threads_find(k, tid); /* NULL: let go of */
		break;
	default:
		break;
	}
	if (t && !(s.kind == STOP_SIGNAL && s.signal == SIGTRAP)) /* else hit_take() has */
		tracing_begin_call_again(t->process->pid, t->tid, NULL);
	if (t)
		threads_settle(k, t);
}
