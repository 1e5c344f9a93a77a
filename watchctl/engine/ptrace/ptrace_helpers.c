#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/plan/dregs.h"
#include "watchctl/engine/ptrace/ptrace_engine.h"
#include "watchctl/engine/ptrace/ptrace_guard.h"
#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/tracee.h"

#define POKE_NS 2000000ull
#define POKE_MAX_NS 200000000ull
#define PATIENCE_NS \
	10000000000ull /* the tracer answers within a second, but for a machine that is very busy */

static bool helper_ended(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return fd >= 0 && poll(&p, 1, 0) > 0;
}

bool ptrace_helpers_ended(struct engine *e)
{
	if (e->guard && waitpid(e->guard, NULL, WNOHANG) == e->guard)
		e->guard = 0;
	return !e->guard;
}

/* One of them was killed. What it takes to leave the target alive is done; the watch is over. */
bool ptrace_helpers_lost(struct engine *e)
{
	bool tracer = helper_ended(e->tracer_fd), guard = ptrace_helpers_ended(e);

	if (e->lost || !(tracer || guard) || e->box->helper.finished)
		return e->lost;
	if (tracer && guard && !e->box->helper.finished)
		guard_rescue(e->box);
	e->lost = tracer;
	snprintf(
		e->why, sizeof(e->why),
		"watchctl's process that %s process %d was killed: its debug registers are cleared, and the watch "
		"has ended",
		tracer ? "traced" : "guarded", e->pid);
	return e->lost;
}

/*
 * The tracer waits for threads to stop, and a signal ends that wait. One that comes just before it begins
 * would be missed: so until it is seen to know, there is another, later and later, since each holds it up.
 */
static void poke(const struct engine *e)
{
	syscall(SYS_pidfd_send_signal, e->tracer_fd, PTRACE_BOX_SIGNAL, NULL, 0);
}

void ptrace_helpers_answer(struct engine *e)
{
	unsigned int i;

	for (i = 0; i < BOX_QUERIES; i++) {
		struct box_query *q = &e->box->query[i];
		uint32_t state = __atomic_load_n(&q->state, __ATOMIC_ACQUIRE);
		const struct watchpoint *w = &e->watch[q->watch % WIRE_WATCHES].w;
		uint64_t addr = 0;
		bool found;

		if (QUERY_STATE(state) != QUERY_ASKED)
			continue;
		found = w->address && w->address(w->address_ctx, q->thread_pointer, &addr) &&
			dregs_fits(addr, w->size);
		q->addr = addr;
		q->found = found;
		if (__atomic_compare_exchange_n(&q->state, &state, (state & ~3u) | QUERY_ANSWERED, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			poke(e);
	}
}

static struct wc_error *helpers_gone(const struct engine *e)
{
	return wc_error_new(WC_EFAIL, "%s", e->why[0] ? e->why : "the tracer process does not respond");
}

struct wc_error *ptrace_helpers_ask(struct engine *e, enum box_command command, uint32_t argument)
{
	struct ptrace_box *box = e->box;
	uint32_t number = box->asked + 1, answered;
	uint64_t end = monotonic_ns() + PATIENCE_NS;
	uint64_t wait_ns = POKE_NS;

	if (ptrace_helpers_lost(e))
		return helpers_gone(e);
	box->command = command;
	box->argument = argument;
	__atomic_store_n(&box->asked, number, __ATOMIC_RELEASE);
	poke(e);
	while ((answered = __atomic_load_n(&box->answered, __ATOMIC_ACQUIRE)) != number) {
		struct timespec t = { .tv_nsec = (long)wait_ns };

		ptrace_helpers_answer(e);
		syscall(SYS_futex, &box->answered, FUTEX_WAIT, answered, &t, NULL, 0);
		if (box->answered == number)
			continue;
		if (ptrace_helpers_lost(e) || monotonic_ns() > end)
			return helpers_gone(e);
		if (__atomic_load_n(&box->taken, __ATOMIC_ACQUIRE) == number) {
			wait_ns = POKE_NS;
			continue;
		}
		poke(e);
		wait_ns = wait_ns < POKE_MAX_NS ? 2 * wait_ns : wait_ns;
	}
	return box->error ? wc_error_new((enum wc_kind)box->error, "%s", box->text) : NULL;
}

/* It stops by job control first, in the kernel; the tracer ends that stop once it has it. */
void ptrace_helpers_hand_over(struct engine *e, struct tracee *held)
{
	if (!held || !held->tid)
		return;
	kill(held->pid, SIGSTOP);
	held_ptrace(PTRACE_DETACH, held->tid, 0, 0);
	held->tid = 0;
	e->held = true;
}

struct wc_error *ptrace_helpers_start(struct engine *e, int memory_fd)
{
	scoped(closep) int owner = (int)syscall(SYS_pidfd_open, getpid(), 0);
	uint64_t end = monotonic_ns() + PATIENCE_NS;

	if (owner < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot start the process that traces");
	e->guard = fork();
	if (!e->guard)
		guard_run(e->ctl, owner, memory_fd);
	if (e->guard < 0) {
		e->guard = 0;
		return wc_error_errno(WC_EFAIL, errno, "cannot start the process that traces");
	}
	while (!__atomic_load_n(&e->box->helper.guarded, __ATOMIC_ACQUIRE)) {
		if (ptrace_helpers_ended(e) || monotonic_ns() > end)
			return wc_error_new(WC_EFAIL, "cannot start the process that traces: %s",
					    e->box->text[0] ? e->box->text : "it ended, or does not begin");
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	}
	if (e->box->silent)
		return wc_error_new(WC_ENOTSUP,
				    "this machine offers no hardware debug registers (one that was set "
				    "did not fire): some virtual machines do not");
	e->tracer_fd = (int)syscall(SYS_pidfd_open, e->box->helper.tracer_pid, 0);
	if (e->tracer_fd < 0)
		return wc_error_errno(WC_EFAIL, errno, "cannot send a request to the tracer process");
	if (e->options.say)
		e->options.say(e->options.say_ctx,
			       "process %d traces process %d; process %d watches over both of us",
			       e->box->helper.tracer_pid, e->pid, e->box->helper.guard_pid);
	return NULL;
}
