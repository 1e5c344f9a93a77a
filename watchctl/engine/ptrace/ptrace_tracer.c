#include "watchctl/engine/ptrace/ptrace_tracer.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/engine/plan/engine.h"
#include "watchctl/target/inject/trap_action.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/helper_process.h"

#define NAP_NS 50000
#define LEAVE_NAP_NS 1000000
#define ARM_NS 250000000ull /* so long a command waits for threads that do not stop */
#define LEAVE_NS 500000000ull
#define LOOK_FOR_DEAD_NS 5000000ull
#define WATCH_OWNER_US 20000
#define EXPIRE_NS 5000000
#define HELD_FOR_OWNER (HOLD_HOOK | HOLD_RING | HOLD_QUERY | HOLD_EXEC | HOLD_LOOK)

static volatile sig_atomic_t guard_gone;

static void on_poke(int sig)
{
	(void)sig; /* what it is for is to end waitpid() */
}

/* Between a look at the flag and waitpid() it would be lost: so it comes again, and again. */
static void on_guard_gone(int sig)
{
	const struct itimerval often = { { 0, WATCH_OWNER_US }, { 0, WATCH_OWNER_US } };

	(void)sig;
	guard_gone = 1;
	setitimer(ITIMER_REAL, &often, NULL);
}

void tracer_wake(const struct tracer *k)
{
	uint32_t *wake = &k->ctl->wake;

	if (!__atomic_exchange_n(wake, 1, __ATOMIC_ACQ_REL))
		syscall(SYS_futex, wake, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void tracer_note(struct tracer *k, const char *fmt, ...)
{
	struct ptrace_box *box = k->box;
	va_list ap;

	if (box->noted != __atomic_load_n(&box->notes_read, __ATOMIC_ACQUIRE))
		return;
	va_start(ap, fmt);
	vsnprintf(box->note, sizeof(box->note), fmt, ap);
	va_end(ap);
	__atomic_store_n(&box->noted, box->noted + 1, __ATOMIC_RELEASE);
	tracer_wake(k);
}

/* Holding threads for the owner's sake */

static bool is_before(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) < 0;
}

bool tracer_is_ahead(const struct tracer *k)
{
	return k->looked == __atomic_load_n(&k->box->looks, __ATOMIC_ACQUIRE) + 1 ||
	       is_before(__atomic_load_n(&k->ctl->done, __ATOMIC_ACQUIRE), k->ctl->behind);
}

bool tracer_hold(struct tracer *k, struct traced *t, enum traced_hold why)
{
	if (tracer_is_ahead(k))
		return false;
	if (!t->held_ns)
		t->held_ns = monotonic_ns();
	t->holds |= why;
	k->holding = true;
	return true;
}

static bool has_waited_in_vain(const struct tracer *k, const struct traced *t, uint64_t now)
{
	uint64_t beat = __atomic_load_n(&k->ctl->heartbeat, __ATOMIC_RELAXED);
	uint64_t heard = beat > t->held_ns ? beat : t->held_ns;

	return now - t->held_ns >= __atomic_load_n(&k->ctl->patience_ns, __ATOMIC_RELAXED) ||
	       (now > heard && now - heard >= HOLD_NS);
}

static void expire(struct tracer *k, struct traced *t)
{
	unsigned int held = t->holds & HELD_FOR_OWNER;

	if (!held)
		return;
	if (!has_waited_in_vain(k, t, k->expired_ns) && !tracer_is_ahead(k)) {
		k->holding = true;
		return;
	}
	if (!tracer_is_ahead(k)) {
		k->looked = __atomic_load_n(&k->box->looks, __ATOMIC_ACQUIRE) + 1;
		k->ctl->behind = k->ctl->head;
	}
	if (held & ~(unsigned int)(HOLD_RING | HOLD_LOOK))
		k->ctl->unheld++;
	if (held & HOLD_QUERY)
		arm_give_up_query(k, t);
	t->holds &= ~(unsigned int)HELD_FOR_OWNER;
	threads_settle(k, t);
}

static void look_for_expired(struct tracer *k)
{
	uint64_t now = monotonic_ns();

	if (!k->holding || now - k->expired_ns < EXPIRE_NS)
		return;
	k->expired_ns = now;
	k->holding = false;
	threads_each(k, expire);
}

/* Commands */

static void count_threads(struct tracer *k, uint32_t *threads, uint32_t *armed)
{
	unsigned int b, i = k->argument;

	*threads = *armed = 0;
	for (b = 0; b < TRACER_BUCKETS; b++) {
		const struct traced *t;

		for (t = k->bucket[b]; t; t = t->next) {
			if (t->dead || t->process->pid != k->pid)
				continue;
			++*threads;
			/* Where it could not be stopped yet, it is armed before it can run any code of its
			 * own. */
			*armed += i < WIRE_WATCHES && (arm_carries(t, i) || (t->generation != k->generation &&
									     k->box->watch[i].addr));
		}
	}
}

static void ptrace_tracer_answer(struct tracer *k)
{
	struct ptrace_box *box = k->box;

	box->error = k->error ? k->error->kind : 0;
	snprintf(box->text, sizeof(box->text), "%s", k->error ? k->error->text : "");
	wc_error_free(k->error);
	k->error = NULL;
	count_threads(k, &box->threads, &box->threads_armed);
	if (k->command == BOX_EXTEND)
		box->threads_armed -=
			k->armed_before < box->threads_armed ? k->armed_before : box->threads_armed;
	k->working = false;
	__atomic_store_n(&box->answered, k->taken, __ATOMIC_RELEASE);
	syscall(SYS_futex, &box->answered, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Its registers are not what they shall be: it is brought up to date now, or stopped for it. */
static void update(struct tracer *k, struct traced *t)
{
	if (k->leaving) {
		threads_interrupt(k, t);
		threads_settle(k, t);
		return;
	}
	if (t->generation == k->generation)
		return;
	if (arm_is_done(k, t) && !(t->holds & HOLD_QUERY)) {
		t->generation = k->generation;
		return;
	}
	threads_interrupt(k, t);
	if (t->stopped)
		threads_settle(k, t);
}

static void update_all(struct tracer *k)
{
	k->generation++;
	threads_each(k, update);
}

static void let_go_of(struct tracer *k, struct traced *t, unsigned int holds)
{
	unsigned int held = t->holds & holds;

	t->holds &= ~held;
	if (held)
		threads_settle(k, t);
}

static void let_go(struct tracer *k, struct traced *t)
{
	let_go_of(k, t, HOLD_START | HOLD_EXEC);
}

/* Not of the one that has just executed a program: it may be armed anew. */
static void let_go_at_stop(struct tracer *k, struct traced *t)
{
	let_go_of(k, t, HOLD_START | HOLD_HOOK);
}

static void go(struct tracer *k, pid_t tid)
{
	struct traced *t = tid ? threads_find(k, tid) : NULL;

	if (tid && t)
		let_go_of(k, t, HOLD_HOOK);
	if (tid)
		return;
	__atomic_store_n(&k->box->held, false, __ATOMIC_RELEASE);
	if (k->box->state == BOX_EXECED)
		k->box->state = BOX_TRACING;
	threads_each(k, let_go);
}

static void ask_again(struct tracer *k, struct traced *t)
{
	t->without &= ~(1u << k->argument);
	if (t->reported)
		t->reported->lacks &= ~(1u << k->argument);
}

/* A thread that could not be stopped since may still carry the watch that had this place before. */
static void disown(struct tracer *k, struct traced *t)
{
	for (unsigned int slot = 0; slot < DREGS; slot++)
		if (t->carries[slot] == k->argument + 1)
			t->stale |= (uint8_t)(1u << slot);
}

static void begin_arming(struct tracer *k, unsigned int i)
{
	struct traced_process *p;

	threads_each(k, disown);
	k->box->watch[i].program = k->box->execs;
	for (p = k->processes; p; p = p->next)
		p->memory->known &= ~(1u << i);
	threads_each(k, ask_again);
	k->want |= 1u << i;
	update_all(k);
}

static void start_leaving(struct tracer *k)
{
	k->want = 0;
	k->leaving = true;
	k->leaving_ns = monotonic_ns();
	__atomic_store_n(&k->box->helper.leaving, true, __ATOMIC_RELEASE);
	if (k->box->held)
		kill(k->pid, SIGCONT); /* it was stopped to be handed over, and may not be ours yet */
	update_all(k);
}

static void ptrace_tracer_begin(struct tracer *k)
{
	uint32_t unused;

	k->command = (enum box_command)k->box->command;
	k->argument = k->box->argument;
	k->working = true;
	k->undone = k->looked_for_dead = false;
	k->started_ns = monotonic_ns();
	switch (k->command) {
	case BOX_SEIZE:
		trap_begin(k);
		k->error = threads_seize(k);
		break;
	case BOX_ARM:
		begin_arming(k, k->argument % WIRE_WATCHES);
		break;
	case BOX_DISARM:
		k->want &= ~k->argument;
		update_all(k);
		break;
	case BOX_EXTEND:
		count_threads(k, &unused, &k->armed_before);
		threads_each(k, ask_again);
		update_all(k);
		break;
	case BOX_GO:
		go(k, (pid_t)k->argument);
		break;
	case BOX_STOP:
		trap_look_for_handler(k, k->pid);
		k->want = 0;
		threads_each(k, let_go_at_stop);
		update_all(k);
		break;
	case BOX_LEAVE:
		start_leaving(k);
		break;
	}
}

/* A leader that has ended before its other threads takes no stop any more, and has no registers. */
static void look_for_dead(struct tracer *k, struct traced *t)
{
	struct proc_status s;

	if (t->generation != k->generation && !t->stopped && proc_status_read(t->process->pid, t->tid, &s) &&
	    (s.state == 'Z' || s.state == 'X'))
		t->dead = true;
}

static bool all_dead(const struct tracer *k)
{
	const struct traced *t;
	unsigned int b;

	for (b = 0; b < TRACER_BUCKETS; b++)
		for (t = k->bucket[b]; t; t = t->next)
			if (!t->dead)
				return false;
	return true;
}

/* Nobody is traced any more but leaders that have ended: they are let go of by our own end. */
static bool has_left_all(struct tracer *k)
{
	uint64_t now;

	if (!k->leaving || !k->nthreads)
		return k->leaving;
	now = monotonic_ns();
	if (now - k->looked_ns > LOOK_FOR_DEAD_NS) {
		k->looked_ns = now;
		threads_each(k, look_for_dead);
		threads_each(k, update); /* who waited for one that has ended */
	}
	return all_dead(k);
}

/* The command in work: is it done, or has it failed, or taken too long? */
static void go_on_working(struct tracer *k)
{
	uint64_t took = monotonic_ns() - k->started_ns;
	bool leaving = k->command == BOX_LEAVE;
	bool done = k->command == BOX_GO || k->command == BOX_SEIZE ||
		    (leaving ? has_left_all(k) : threads_are_updated(k, NULL));

	if (!done && !k->looked_for_dead && took > LOOK_FOR_DEAD_NS) {
		k->looked_for_dead = true;
		threads_each(k, look_for_dead);
	}
	if (!done && took < (leaving ? LEAVE_NS : ARM_NS))
		return;
	if (k->error && k->command == BOX_ARM && !k->undone) {
		k->undone = true;
		k->want &= ~(1u << k->argument);
		update_all(k);
		return;
	}
	ptrace_tracer_answer(k);
}

static bool owner_has_ended(const struct tracer *k)
{
	struct pollfd p = { .fd = k->owner_fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static void check_owner(struct tracer *k)
{
	bool gone = __atomic_load_n(&k->box->helper.orphaned, __ATOMIC_ACQUIRE) ||
		    (guard_gone && owner_has_ended(k));

	if (!gone || k->leaving)
		return;
	start_leaving(k);
}

static void attend(struct tracer *k)
{
	uint32_t asked = __atomic_load_n(&k->box->asked, __ATOMIC_ACQUIRE);

	check_owner(k);
	if (!k->working && !k->leaving && asked != k->taken) {
		k->taken = asked;
		__atomic_store_n(&k->box->taken, asked, __ATOMIC_RELEASE);
		ptrace_tracer_begin(k);
	}
	arm_take_answers(k);
	look_for_expired(k);
	if (k->late)
		hit_flush_late(k);
	hit_let_looked(k);
	if (k->working)
		go_on_working(k);
}

static void nap(long ns)
{
	nanosleep(&(struct timespec){ .tv_nsec = ns }, NULL);
}

static pid_t ptrace_tracer_take(void *ctx, int *status, int flags)
{
	(void)ctx;
	return waitpid(-1, status, __WALL | flags);
}

/* What must be looked at after some time ends the wait for stops, which would go on for ever. */
static void ptrace_tracer_tick(struct tracer *k, bool on)
{
	const struct itimerval t = { { 0, EXPIRE_NS / 1000 }, { 0, EXPIRE_NS / 1000 } },
			       off = { { 0, 0 }, { 0, 0 } };

	if (k->ticks == on || guard_gone)
		return;
	k->ticks = on;
	setitimer(ITIMER_REAL, on ? &t : &off, NULL);
}

static void loop(struct tracer *k)
{
	while (k->working || !has_left_all(k)) {
		int status;
		pid_t tid;

		attend(k);
		ptrace_tracer_tick(k, k->holding || k->late);
		if (threads_next_aside(k, &tid, &status)) {
			threads_on_status(k, tid, status);
			continue;
		}
		if (k->working || k->queries || (k->late && !tracer_is_ahead(k)) || k->looks || k->leaving)
			tid = waitpid(-1, &status, __WALL | WNOHANG);
		else
			tid = stop_wait_next(&k->wait, ptrace_tracer_take, NULL, &status);
		if (tid < 0 && errno == ECHILD)
			threads_all_ended(k);
		else if (tid > 0)
			threads_on_status(k, tid, status);
		if (tid == 0 || (tid < 0 && errno == ECHILD))
			nap(k->leaving && !k->working ? LEAVE_NAP_NS : NAP_NS);
	}
}

/* Its life */

static void set_signals(void)
{
	struct sigaction poke = { .sa_handler = on_poke }, gone = { .sa_handler = on_guard_gone };
	struct sigaction child = { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP };
	sigset_t mask;

	helper_ignore_signals();
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	/* A tracer that cannot be woken, or does not learn that it is alone, must not begin. */
	if (sigaction(PTRACE_BOX_SIGNAL, &poke, NULL) || sigaction(SIGALRM, &poke, NULL) ||
	    sigaction(SIGUSR2, &gone, NULL) || sigaction(SIGCHLD, &child, NULL) ||
	    sigprocmask(SIG_SETMASK, &mask, NULL) || prctl(PR_SET_PDEATHSIG, SIGUSR2))
		_exit(1);
}

void tracer_run(struct wire_control *ctl)
{
	struct ptrace_box *box = ptrace_box_of(ctl);
	struct tracer *k = calloc(1, sizeof(*k));
	char line[80];

	if (!k)
		_exit(1);
	k->ctl = ctl;
	k->box = box;
	k->pid = box->target_pid;
	k->owner_fd = HELPER_OWNER_FD;
	k->late_end = &k->late;
	set_signals();
	setsid();
	snprintf(line, sizeof(line), TRACER_NAME " of process %d: killing it may kill that", k->pid);
	helper_rename(TRACER_NAME, line);
	while (!__atomic_load_n(&box->helper.guarded, __ATOMIC_ACQUIRE) && !owner_has_ended(k))
		nap(NAP_NS);
	loop(k);
	/* Where that was not possible before. Who asked for the watch was told that it can fail. */
	if (k->ignores_trap)
		wc_error_free(trap_action_ignore(k->pid, NULL));
	__atomic_store_n(&box->helper.finished, true, __ATOMIC_RELEASE);
	_exit(0);
}
