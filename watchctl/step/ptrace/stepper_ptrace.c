/*
 * stepper_ptrace - the owner's side of the ptrace stepper: it starts the processes that do the work (step_box.h),
 * asks them, and reads what they tell.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/step/ptrace/step_errno.h"
#include "watchctl/step/ptrace/step_guard.h"
#include "watchctl/step/ptrace/step_ring.h"
#include "watchctl/target/inject/trap_known.h"
#include "watchctl/target/proc/loader_hook.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/tracee.h"

#define POKE_NS 2000000ull
#define POKE_MAX_NS 200000000ull
#define PATIENCE_NS 10000000000ull /* it answers within a second, but on a machine that is very busy */
#define LOOK_NS 5000000ull	   /* how long we sleep between looks at the ring */
#define END_NS 2000000000ull
#define ERRNO_TRIES 3u

struct stepper {
	struct stepper_options options;
	struct step_box *box;
	pid_t guard;   /* our child; 0: waited for */
	int tracer_fd; /* -1: not started */
	bool lost;     /* the tracer was killed */
	char why[200];
	struct step_unwired unwired;
	bool has_record; /* unwired is the caller's until it asks for the next one */
	bool over;	 /* nothing more is to come */
	unsigned int errno_tries;
};

/* The helpers */

static bool has_ended(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return fd >= 0 && poll(&p, 1, 0) > 0;
}

static bool guard_ended(struct stepper *m)
{
	if (m->guard && waitpid(m->guard, NULL, WNOHANG) == m->guard)
		m->guard = 0;
	return !m->guard;
}

static bool is_finished(const struct stepper *m)
{
	return __atomic_load_n(&m->box->helper.finished, __ATOMIC_ACQUIRE);
}

/* One of them was killed. What it takes to leave the program alive is done; the recording is over. */
static bool is_lost(struct stepper *m)
{
	bool tracer = has_ended(m->tracer_fd), guard = guard_ended(m);

	if (m->lost || !tracer || is_finished(m))
		return m->lost;
	if (guard)
		step_guard_rescue(m->box);
	m->lost = true;
	snprintf(
		m->why, sizeof(m->why),
		"the tracer of process %d was killed: its breakpoints are removed, and the recording has ended",
		m->options.pid);
	return true;
}

static void poke(const struct stepper *m)
{
	syscall(SYS_pidfd_send_signal, m->tracer_fd, STEP_BOX_SIGNAL, NULL, 0);
}

/*
 * The tracer waits for threads to stop, and a signal ends that wait. One that comes just before it begins
 * would be missed: so until it is seen to know, there is another, later and later, since each holds it up.
 */
static struct wc_error *stepper_ptrace_ask(struct stepper *m, enum step_command command)
{
	struct step_box *box = m->box;
	uint32_t number = box->asked + 1, answered;
	uint64_t end = monotonic_ns() + PATIENCE_NS, wait_ns = POKE_NS;

	box->command = command;
	__atomic_store_n(&box->asked, number, __ATOMIC_RELEASE);
	poke(m);
	while ((answered = __atomic_load_n(&box->answered, __ATOMIC_ACQUIRE)) != number) {
		struct timespec t = { .tv_nsec = (long)wait_ns };

		syscall(SYS_futex, &box->answered, FUTEX_WAIT, answered, &t, NULL, 0);
		if (__atomic_load_n(&box->answered, __ATOMIC_ACQUIRE) == number)
			break;
		if (is_finished(m))
			return NULL; /* the program has ended, or goes its way: a record reports */
		if (is_lost(m) || monotonic_ns() > end)
			return wc_error_new(WC_EFAIL, "%s",
					    m->lost ? m->why : "the tracer process does not respond");
		if (__atomic_load_n(&box->taken, __ATOMIC_ACQUIRE) == number) {
			wait_ns = POKE_NS;
			continue;
		}
		poke(m);
		wait_ns = wait_ns < POKE_MAX_NS ? 2 * wait_ns : wait_ns;
	}
	return box->error ? wc_error_new((enum wc_kind)box->error, "%s", box->text) : NULL;
}

/* Opening */

static void find_loader(struct stepper *m)
{
	struct module_list modules = { 0 };
	struct wc_error *err = module_list_read(m->options.pid, &modules);

	if (!err) {
		m->box->loader_hook = loader_hook_address(m->options.pid, &modules);
		m->box->loader_state = loader_hook_state_address(m->options.pid, &modules);
	}
	wc_error_free(err); /* then libraries that are loaded later are not seen */
	module_list_deinit(&modules);
}

static struct wc_error *make_memory(struct stepper *m, int *ret_fd)
{
	scoped(closep) int fd = memfd_create(STEP_BOX_FILE, MFD_CLOEXEC);
	void *map = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, (off_t)STEP_BOX_SIZE))
		map = mmap(NULL, STEP_BOX_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return wc_error_errno(WC_EFAIL, errno, "cannot make the event buffer");
	m->box = map;
	*ret_fd = take_fd(fd);
	return NULL;
}

static void fill_box(struct stepper *m)
{
	const struct stepper_options *o = &m->options;
	struct step_box *box = m->box;

	box->target_pid = o->pid;
	box->held = o->held && o->held->tid;
	box->range = o->range;
	box->threads = o->threads;
	box->depth = o->depth;
	box->events = o->events;
	box->stuck_ns = o->stuck_ns;
	box->instructions = o->instructions;
	box->stack_bytes = o->stack_bytes < STEPPER_STACK_MAX ? o->stack_bytes : STEPPER_STACK_MAX;
	box->inputs = o->inputs;
	box->input_bytes = o->input_bytes < INPUT_BYTES_MAX ? o->input_bytes : INPUT_BYTES_MAX;
	box->wake = 1;
	find_loader(m);
	if (!box->held)
		trap_known_ask(o->pid, &box->trap);
}

static struct wc_error *start_helpers(struct stepper *m, int memory_fd)
{
	scoped(closep) int owner = (int)syscall(SYS_pidfd_open, getpid(), 0);
	uint64_t end = monotonic_ns() + PATIENCE_NS;

	if (owner < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot start the process that traces");
	m->guard = fork();
	if (!m->guard)
		step_guard_run(m->box, owner, memory_fd);
	if (m->guard < 0) {
		m->guard = 0;
		return wc_error_errno(WC_EFAIL, errno, "cannot start the process that traces");
	}
	while (!__atomic_load_n(&m->box->helper.guarded, __ATOMIC_ACQUIRE)) {
		if (guard_ended(m) || monotonic_ns() > end)
			return wc_error_new(WC_EFAIL, "cannot start the process that traces: %s",
					    m->box->text[0] ? m->box->text : "it ended, or does not begin");
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	}
	m->tracer_fd = (int)syscall(SYS_pidfd_open, m->box->helper.tracer_pid, 0);
	if (m->tracer_fd < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot send a request to the tracer process");
	if (m->options.say)
		m->options.say(m->options.say_ctx, "process %d traces process %d; process %d watches over it",
			       m->box->helper.tracer_pid, m->options.pid, m->box->helper.guard_pid);
	return NULL;
}

/* It stops by job control first, in the kernel; the tracer ends that stop once it has it. */
static void hand_over(struct tracee *held)
{
	if (!held || !held->tid)
		return;
	kill(held->pid, SIGSTOP);
	held_ptrace(PTRACE_DETACH, held->tid, 0, 0);
	held->tid = 0;
}

static struct wc_error *close_stepper(struct stepper *m);

static struct wc_error *open_stepper(const struct stepper_options *o, struct stepper **ret)
{
	scoped(closep) int memory_fd = -1;
	struct wc_error *err = proc_check(o->pid);
	struct stepper *m;

	if (err)
		return err;
	m = calloc(1, sizeof(*m));
	if (!m)
		return &wc_enomem;
	m->options = *o;
	m->tracer_fd = -1;
	err = make_memory(m, &memory_fd);
	if (!err) {
		fill_box(m);
		err = start_helpers(m, memory_fd);
	}
	if (!err) {
		hand_over(o->held);
		err = stepper_ptrace_ask(m, STEP_ASK_SEIZE);
	}
	if (err) {
		wc_error_free(close_stepper(m));
		return err;
	}
	*ret = m;
	return NULL;
}

/* Asking */

static struct wc_error *add_points(struct stepper *m, const struct step_point *p, size_t n)
{
	struct wc_error *err = NULL;

	while (n && !err) {
		size_t now = n < STEP_BOX_BATCH ? n : STEP_BOX_BATCH;

		memcpy(m->box->with.point, p, now * sizeof(*p));
		m->box->count = (uint32_t)now;
		m->box->more = n > now;
		err = stepper_ptrace_ask(m, STEP_ASK_POINTS);
		p += now;
		n -= now;
	}
	return err;
}

static struct wc_error *tell_list(struct stepper *m, enum step_command command, const struct stepper_code *c,
				  size_t n)
{
	struct wc_error *err;

	do {
		size_t now = n < STEP_BOX_BATCH ? n : STEP_BOX_BATCH;

		if (now)
			memcpy(m->box->with.code, c, now * sizeof(*c));
		m->box->count = (uint32_t)now;
		m->box->more = n > now;
		err = stepper_ptrace_ask(m, command);
		c += now;
		n -= now;
	} while (n && !err);
	return err;
}

static struct wc_error *set_code(struct stepper *m, const struct stepper_code *c, size_t n)
{
	return tell_list(m, STEP_ASK_CODE, c, n);
}

static struct wc_error *set_data(struct stepper *m, const struct stepper_code *object, size_t n)
{
	return tell_list(m, STEP_ASK_DATA, object, n);
}

static struct wc_error *remove_points(struct stepper *m, uint64_t start, uint64_t end)
{
	m->box->start = start;
	m->box->end = end;
	return stepper_ptrace_ask(m, STEP_ASK_REMOVE);
}

static struct wc_error *start(struct stepper *m)
{
	return stepper_ptrace_ask(m, STEP_ASK_START);
}

static void find_errno(struct stepper *m, uint64_t thread_pointer)
{
	int64_t offset;

	m->errno_tries++;
	if (step_errno_offset(m->options.pid, thread_pointer, &offset))
		__atomic_store_n(&m->box->errno_offset, offset, __ATOMIC_RELEASE);
}

static struct wc_error *set_plan(struct stepper *m, uint32_t point, const struct step_plan *plan)
{
	uint64_t thread_pointer = m->unwired.record.regs.r[WREG_FS_BASE];
	bool asks = false;
	uint32_t i;

	for (i = 0; i < plan->leave.n; i++)
		asks |= plan->leave.v[i].op == FETCH_ERRNO;
	if (asks && thread_pointer && !m->box->errno_offset && m->errno_tries < ERRNO_TRIES)
		find_errno(m, thread_pointer);
	m->box->with.plan = *plan;
	m->box->start = point;
	return stepper_ptrace_ask(m, STEP_ASK_PLAN);
}

static struct wc_error *modules_done(struct stepper *m)
{
	return stepper_ptrace_ask(m, STEP_ASK_GO);
}

static struct wc_error *stop(struct stepper *m)
{
	return stepper_ptrace_ask(m, STEP_ASK_STOP);
}

static void stepper_ptrace_counts(const struct stepper *m, struct stepper_counts *ret)
{
	*ret = m->box->counts;
}

/* Reading */

static void wait_for_records(const struct stepper *m, uint64_t ns)
{
	uint32_t *wake = &m->box->wake;
	struct timespec t = { .tv_nsec = (long)ns };

	__atomic_store_n(wake, 0, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&m->box->head, __ATOMIC_SEQ_CST) == m->box->tail)
		syscall(SYS_futex, wake, FUTEX_WAIT, 0, &t, NULL, 0);
	__atomic_store_n(wake, 1, __ATOMIC_SEQ_CST);
}

/* The tracer was killed: that is reported once, and nothing more is to come. */
static const struct step_record *report_lost(struct stepper *m)
{
	m->over = true;
	m->unwired.record = (struct step_record){
		.kind = STEP_DONE, .time_ns = monotonic_ns(), .pid = m->options.pid, .why = m->why
	};
	return &m->unwired.record;
}

static struct wc_error *next(struct stepper *m, int timeout_ms, const struct step_record **ret)
{
	uint64_t now = 0, end = 0;

	*ret = NULL;
	if (m->has_record)
		__atomic_store_n(&m->box->tail, m->unwired.next, __ATOMIC_RELEASE);
	m->has_record = false;
	while (!step_ring_read(m->box, &m->unwired)) {
		now = monotonic_ns();
		end = end ? end : now + (uint64_t)timeout_ms * 1000000u;
		if (is_lost(m) && !m->over && !step_ring_read(m->box, &m->unwired)) {
			*ret = report_lost(m);
			return NULL;
		}
		if (now >= end)
			return NULL;
		wait_for_records(m, end - now < LOOK_NS ? end - now : LOOK_NS);
	}
	m->has_record = true;
	*ret = &m->unwired.record;
	return NULL;
}

/* Closing */

static struct wc_error *withdraw(struct stepper *m)
{
	uint64_t end = monotonic_ns() + END_NS;

	if (m->tracer_fd < 0)
		return NULL;
	if (!is_finished(m) && !m->lost)
		wc_error_free(stepper_ptrace_ask(m, STEP_ASK_LEAVE));
	/* What it still has to tell would keep it: nobody reads any more. */
	while (!guard_ended(m) && monotonic_ns() < end) {
		__atomic_store_n(&m->box->tail, __atomic_load_n(&m->box->head, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	}
	if (is_finished(m) || is_lost(m))
		return NULL;
	return wc_error_new(
		WC_EFAIL,
		"a thread of process %d cannot be stopped now: process %d stays until it has released the thread",
		m->options.pid, m->box->helper.tracer_pid);
}

static struct wc_error *close_stepper(struct stepper *m)
{
	struct wc_error *err;

	if (!m)
		return NULL;
	err = m->box ? withdraw(m) : NULL;
	closep(&m->tracer_fd);
	if (m->box)
		munmap(m->box, STEP_BOX_SIZE);
	free(m);
	return err;
}

const struct stepper_ops stepper_ptrace = {
	.name = "ptrace",
	.sees_inputs = true,
	.open = open_stepper,
	.add_points = add_points,
	.set_code = set_code,
	.set_data = set_data,
	.remove_points = remove_points,
	.start = start,
	.next = next,
	.set_plan = set_plan,
	.modules_done = modules_done,
	.stop = stop,
	.counts = stepper_ptrace_counts,
	.close = close_stepper,
};
