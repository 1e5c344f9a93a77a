#include "watchctl/step/ptrace/step_tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/task.h"
#include "watchctl/base/vec.h"
#include "watchctl/target/inject/trap_action.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/helper_process.h"
#include "watchctl/target/stop/tracing.h"

#define NAP_NS 50000
#define LEAVE_NS 500000000ull
#define GATHER_NS 20000000ull
#define HELD_NS 5000000000ull
#define WATCH_OWNER_US 20000
#define STUCK_LOOK_MAX_US 250000u
#define STUCK_LOOK_MIN_US 5000u

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

bool step_tracer_is_orphan(const struct step_tracer *k)
{
	struct pollfd p = { .fd = k->owner_fd, .events = POLLIN };

	return __atomic_load_n(&k->box->helper.orphaned, __ATOMIC_ACQUIRE) ||
	       (guard_gone && poll(&p, 1, 0) > 0);
}

void step_tracer_nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
}

/* Leaving */

static void let_go(struct step_tracer *k, struct step_thread *t)
{
	step_threads_interrupt(k, t);
	step_threads_settle(k, t);
}

void step_tracer_leave(struct step_tracer *k)
{
	if (k->leaving)
		return;
	k->leaving = true;
	k->started_ns = monotonic_ns();
	__atomic_store_n(&k->box->helper.leaving, true, __ATOMIC_RELEASE);
	if (k->box->held && !k->started)
		kill(k->pid, SIGCONT); /* it was stopped to be handed over, and may not be ours yet */
	step_breaks_sync(k);
	k->wants_leave = true;
}

/* Threads that are to leave together: one that they wait for may have ended. */
static bool gathers(const struct step_tracer *k)
{
	return k->leaving && step_trap_gathers(k);
}

/* Not from within a stop that is being looked at: it may be let go of twice. */
static void leave_all(struct step_tracer *k)
{
	uint64_t now = monotonic_ns();

	if (!k->wants_leave && (!gathers(k) || now - k->asked_ns < GATHER_NS))
		return;
	k->asked_ns = now;
	k->wants_leave = false;
	step_threads_each(k, let_go);
}

/* Commands */

static struct wc_error *add_point(struct step_tracer *k, const struct step_point *p)
{
	static const uint32_t use[] = {
		[POINT_FUNCTION] = BREAK_FUNCTION,
		[POINT_OVER] = BREAK_FUNCTION,
		[POINT_FROM] = BREAK_FROM,
		[POINT_TO] = BREAK_TO,
	};
	uint32_t number, i = (uint32_t)k->npoints;
	struct wc_error *err;

	if (p->use > POINT_TO)
		return wc_error_new(WC_EFAIL, "point %u has no known use", i);
	if (!vec_push(k->point, k->npoints, k->points_cap, *p) ||
	    !vec_reserve((void **)&k->plan, &k->plans_cap, k->npoints, sizeof(*k->plan)) ||
	    !vec_reserve((void **)&k->asked, &k->asked_cap, k->npoints, sizeof(*k->asked)))
		return &wc_enomem;
	k->plan[i] = NULL;
	k->asked[i] = false;
	k->unwinds |= step_deep_unwinds(p->leaves);
	err = step_breaks_add(k, p->address, use[p->use], &number);
	if (err)
		return err;
	if (use[p->use] == BREAK_FUNCTION)
		k->brk[number].function = i;
	else if (p->use == POINT_FROM)
		k->brk[number].from = i;
	return NULL;
}

static struct wc_error *add_points(struct step_tracer *k)
{
	struct wc_error *err = NULL;
	uint32_t i;

	for (i = 0; i < k->box->count && !err; i++)
		err = add_point(k, &k->box->with.point[i]);
	if (k->box->more)
		return err;
	step_breaks_look_at_maps(k);
	if (k->started)
		step_breaks_sync(k);
	return err;
}

static int by_start(const void *a, const void *b)
{
	const struct stepper_code *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* *@whole: the list of which box->with.code is a part has come to its end. */
static struct wc_error *take_list(struct step_tracer *k, bool *whole)
{
	uint32_t i;

	for (i = 0; i < k->box->count; i++)
		if (!vec_push(k->new_code, k->nnew_code, k->new_code_cap, k->box->with.code[i]))
			return &wc_enomem;
	*whole = !k->box->more;
	return NULL;
}

static struct wc_error *set_code(struct step_tracer *k)
{
	bool whole = false;
	struct wc_error *err = take_list(k, &whole);

	if (err || !whole)
		return err;
	free(k->code);
	k->code = k->new_code;
	k->ncode = k->nnew_code;
	k->new_code = NULL;
	k->nnew_code = k->new_code_cap = 0;
	if (k->ncode)
		qsort(k->code, k->ncode, sizeof(*k->code), by_start);
	return NULL;
}

static struct wc_error *set_data(struct step_tracer *k)
{
	bool whole = false, ok;
	struct wc_error *err = take_list(k, &whole);

	if (err || !whole)
		return err;
	ok = step_shadow_set(&k->shadow, k->new_code, k->nnew_code);
	k->nnew_code = 0;
	if (ok && k->recording)
		step_written_copy(k);
	return ok ? NULL : &wc_enomem;
}

static void release(struct step_tracer *k, struct step_thread *t, unsigned int hold)
{
	t->holds &= ~hold;
	if (!t->holds && t->stopped)
		step_threads_settle(k, t);
}

static void go_after_plan(struct step_tracer *k, struct step_thread *t)
{
	if (!(t->holds & HOLD_PLAN))
		return;
	step_hit_planned(k, t);
	release(k, t, 0);
}

static struct wc_error *set_plan(struct step_tracer *k)
{
	uint64_t i = k->box->start;
	struct step_plan *plan;

	if (i >= k->npoints)
		return wc_error_new(WC_EFAIL, "there is no point %llu", (unsigned long long)i);
	plan = k->plan[i] ? k->plan[i] : malloc(sizeof(*plan));
	if (!plan)
		return &wc_enomem;
	*plan = k->box->with.plan;
	k->plan[i] = plan;
	k->last_ns = monotonic_ns();
	step_threads_each(k, go_after_plan);
	return NULL;
}

static void go_after_modules(struct step_tracer *k, struct step_thread *t)
{
	if (t->holds & HOLD_MODULES)
		release(k, t, HOLD_MODULES);
}

static void go_at_start(struct step_tracer *k, struct step_thread *t)
{
	if (t->holds & HOLD_START)
		release(k, t, HOLD_START);
}

static struct wc_error *step_tracer_start(struct step_tracer *k)
{
	struct wc_error *err = NULL;
	uint32_t unused;

	if (k->started)
		return NULL;
	if (k->box->loader_hook)
		err = step_breaks_add(k, k->box->loader_hook, BREAK_LOADER, &unused);
	if (err)
		return err;
	step_breaks_look_at_maps(k);
	step_move_let_forks_end(k);
	k->started = true;
	step_range_start(k);
	__atomic_store_n(&k->box->held, false, __ATOMIC_RELEASE);
	step_threads_each(k, go_at_start);
	return NULL;
}

static void look_at_status(struct step_tracer *k)
{
	struct proc_status s;

	if (!proc_status_read(k->pid, k->pid, &s))
		return;
	step_trap_init(k, &s);
	k->has_shadow_stack = s.shadow_stack;
}

/* Its stop by job control, for the sake of being handed over, is ended by us: not before it has come. */
static void wait_for_held(struct step_tracer *k)
{
	uint64_t end = monotonic_ns() + HELD_NS;
	const struct step_thread *t;
	int status;

	while ((t = step_threads_find(k, k->pid)) && !t->stopped && monotonic_ns() < end) {
		pid_t tid = step_threads_take(k, &status, WNOHANG);

		if (tid > 0)
			step_threads_on_status(k, tid, status);
		else
			step_tracer_nap();
	}
}

static struct wc_error *seize(struct step_tracer *k)
{
	const char *again = tracing_begins_calls_again(k->pid);
	struct wc_error *err;
	char path[64];

	look_at_status(k);
	err = step_births_seize(k);
	if (err)
		return err;
	if (again)
		step_report_note(k, "%s", again);
	snprintf(path, sizeof(path), "/proc/%d/mem", task_with_memory(k->pid));
	k->mem_fd = open(path, O_RDWR | O_CLOEXEC);
	if (k->mem_fd < 0)
		return wc_error_errno(WC_EPERM, errno, "cannot write into the memory of process %d", k->pid);
	if (k->box->held)
		wait_for_held(k);
	return NULL;
}

static void step_tracer_begin(struct step_tracer *k)
{
	k->command = (enum step_command)k->box->command;
	k->working = true;
	if (k->leaving)
		return; /* nothing can be asked for any more */
	switch (k->command) {
	case STEP_ASK_SEIZE:
		k->error = seize(k);
		break;
	case STEP_ASK_POINTS:
		k->error = add_points(k);
		break;
	case STEP_ASK_CODE:
		k->error = set_code(k);
		break;
	case STEP_ASK_DATA:
		k->error = set_data(k);
		break;
	case STEP_ASK_REMOVE:
		step_breaks_forget(k, k->box->start, k->box->end);
		break;
	case STEP_ASK_START:
		k->error = step_tracer_start(k);
		break;
	case STEP_ASK_PLAN:
		k->error = set_plan(k);
		break;
	case STEP_ASK_GO:
		k->last_ns = monotonic_ns();
		step_threads_each(k, go_after_modules);
		break;
	case STEP_ASK_STOP:
		step_range_cut(k, NULL, RANGE_STOPPED);
		break;
	case STEP_ASK_LEAVE:
		step_tracer_leave(k);
		break;
	}
}

static void step_tracer_answer(struct step_tracer *k)
{
	struct step_box *box = k->box;

	box->error = k->error ? k->error->kind : 0;
	snprintf(box->text, sizeof(box->text), "%s", k->error ? k->error->text : "");
	wc_error_free(k->error);
	k->error = NULL;
	k->working = false;
	__atomic_store_n(&box->answered, k->taken, __ATOMIC_RELEASE);
	syscall(SYS_futex, &box->answered, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* Leaving takes the threads' stops, and some may be in the kernel for long. */
static bool is_done(struct step_tracer *k)
{
	return k->command != STEP_ASK_LEAVE || (!k->nthreads && !step_births_expected(k)) ||
	       monotonic_ns() - k->started_ns > LEAVE_NS;
}

static void attend(struct step_tracer *k)
{
	uint32_t asked = __atomic_load_n(&k->box->asked, __ATOMIC_ACQUIRE);

	if (!k->leaving && step_tracer_is_orphan(k))
		step_tracer_leave(k);
	if (!k->working && asked != k->taken) {
		k->taken = asked;
		__atomic_store_n(&k->box->taken, asked, __ATOMIC_RELEASE);
		step_tracer_begin(k);
	}
	leave_all(k);
	if (k->working && is_done(k))
		step_tracer_answer(k);
	if (k->late)
		step_report_late(k);
	step_range_check_stuck(k);
}

/* Waiting */

static pid_t step_tracer_take(void *ctx, int *status, int flags)
{
	return step_threads_take(ctx, status, flags);
}

static bool is_over(struct step_tracer *k)
{
	bool asked = __atomic_load_n(&k->box->asked, __ATOMIC_ACQUIRE) != k->taken;

	return k->leaving && !k->nthreads && !k->working && !asked && !step_births_expected(k) &&
	       (!k->late || step_tracer_is_orphan(k));
}

static void loop(struct step_tracer *k)
{
	while (!is_over(k)) {
		int status;
		pid_t tid;

		attend(k);
		if (k->late_status || k->working || k->late || gathers(k))
			tid = step_threads_wait(k, &status, WNOHANG);
		else
			tid = stop_wait_next(&k->wait, step_tracer_take, k, &status);
		if (tid > 0)
			step_threads_on_status(k, tid, status);
		else if (tid < 0 && errno == ECHILD && k->nthreads)
			step_threads_gone(k);
		else if (tid == 0 || errno == ECHILD)
			step_tracer_nap();
	}
}

/* Its life */

static void set_signals(const struct step_box *box)
{
	struct sigaction poke = { .sa_handler = on_poke }, gone = { .sa_handler = on_guard_gone };
	struct sigaction child = { .sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP };
	uint64_t look_us = box->stuck_ns / 8000;
	sigset_t mask;

	helper_ignore_signals();
	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	/* A tracer that cannot be woken, or does not learn that it is alone, must not begin. */
	if (sigaction(STEP_BOX_SIGNAL, &poke, NULL) || sigaction(SIGALRM, &poke, NULL) ||
	    sigaction(SIGUSR2, &gone, NULL) || sigaction(SIGCHLD, &child, NULL) ||
	    sigprocmask(SIG_SETMASK, &mask, NULL) || prctl(PR_SET_PDEATHSIG, SIGUSR2))
		_exit(1);
	if (!box->stuck_ns)
		return;
	look_us = look_us < STUCK_LOOK_MIN_US ? STUCK_LOOK_MIN_US : look_us;
	look_us = look_us > STUCK_LOOK_MAX_US ? STUCK_LOOK_MAX_US : look_us;
	setitimer(ITIMER_REAL,
		  &(struct itimerval){ { 0, (suseconds_t)look_us }, { 0, (suseconds_t)look_us } }, NULL);
}

static bool is_alone(const struct step_tracer *k)
{
	struct pollfd p = { .fd = k->owner_fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

void step_tracer_run(struct step_box *box)
{
	struct step_tracer *k = calloc(1, sizeof(*k));
	char line[80];

	if (!k)
		_exit(1);
	k->box = box;
	k->breaks = step_box_breaks(box);
	k->pid = k->vm_tid = box->target_pid;
	k->owner_fd = HELPER_OWNER_FD;
	k->mem_fd = -1;
	k->late_end = &k->late;
	k->late_status_end = &k->late_status;
	k->track = track_new();
	if (!k->track || !step_copies_init(k))
		_exit(1);
	set_signals(box);
	setsid();
	snprintf(line, sizeof(line), STEP_TRACER_NAME " of process %d: killing it may kill that", k->pid);
	helper_rename(STEP_TRACER_NAME, line);
	while (!__atomic_load_n(&box->helper.guarded, __ATOMIC_ACQUIRE) && !is_alone(k))
		step_tracer_nap();
	loop(k);
	if (k->ignores_trap)
		wc_error_free(trap_action_ignore(k->pid, NULL)); /* who blocks that by seccomp was reported */
	__atomic_store_n(&box->helper.finished, true, __ATOMIC_RELEASE);
	step_report_wake(k);
	_exit(0);
}
