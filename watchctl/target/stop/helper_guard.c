#include "watchctl/target/stop/helper_guard.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/target/stop/held.h"
#include "watchctl/target/stop/helper_process.h"
#include "watchctl/target/stop/stop.h"

#define POKE_MS 2
#define POKE_MAX_MS 200

/* While it watches. */
struct helper_guard {
	const struct helper_life *life;
	pid_t tracer;
	int child_fd; /* ours */
	bool ended;
};

static bool helper_guard_init(struct helper_guard *g)
{
	sigset_t child;

	signal(g->life->poke, SIG_IGN);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	if (sigprocmask(SIG_SETMASK, &child, NULL))
		return false;
	signal(SIGCHLD, SIG_DFL);
	g->child_fd = signalfd(-1, &child, SFD_NONBLOCK | SFD_CLOEXEC);
	return g->child_fd >= 0;
}

/* Of the signals that come to the tracer, it gets those that are ours, and those that its own mistakes raise.
 */
static int passed_on(const struct helper_guard *g, int sig)
{
	siginfo_t info;

	if (sig == g->life->poke)
		return sig;
	switch (sig) {
	case SIGUSR2:
	case SIGALRM:
		return sig;
	case SIGSEGV:
	case SIGBUS:
	case SIGILL:
	case SIGFPE:
	case SIGABRT:
		return held_ptrace(PTRACE_GETSIGINFO, g->tracer, 0, &info) || info.si_code > 0 ||
				       sig == SIGABRT
			       ? sig
			       : 0;
	default:
		return 0;
	}
}

static void on_tracer(struct helper_guard *g, int status)
{
	struct stop s = stop_decode(status);

	if (s.kind == STOP_ENDED) {
		g->ended = true;
		return;
	}
	if (s.kind == STOP_EXITING && !__atomic_load_n(&g->life->box->finished, __ATOMIC_ACQUIRE))
		g->life->is_dying(g->life->ctx);
	held_ptrace(PTRACE_CONT, g->tracer, 0, s.kind == STOP_SIGNAL ? passed_on(g, s.signal) : 0);
}

static void take_stops(struct helper_guard *g)
{
	struct signalfd_siginfo info;
	int status;

	while (read(g->child_fd, &info, sizeof(info)) > 0)
		;
	while (!g->ended) {
		pid_t got = waitpid(g->tracer, &status, __WALL | WNOHANG);

		if (got == g->tracer)
			on_tracer(g, status);
		else if (got < 0 && errno != EINTR)
			g->ended = true;
		else if (!got)
			break;
	}
}

/*
 * A poke that comes between the tracer's look into the box and its wait is missed, so there is another. Not
 * too soon: each costs it two switches, and on a busy CPU it would do nothing else.
 */
static void helper_guard_watch(struct helper_guard *g)
{
	struct helper_box *box = g->life->box;
	int wait_ms = POKE_MS;

	/* We hardly ever run, and then at once, where that is permitted. */
	sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){ .sched_priority = 1 });
	while (!g->ended) {
		struct pollfd p[2] = { { .fd = g->child_fd, .events = POLLIN },
				       { .fd = HELPER_OWNER_FD, .events = POLLIN } };
		bool orphaned = box->orphaned;
		bool poking = orphaned && !__atomic_load_n(&box->leaving, __ATOMIC_ACQUIRE);
		int ready = poll(p, orphaned ? 1 : 2, poking ? wait_ms : -1);

		take_stops(g);
		if (g->ended || (orphaned && !(poking && !ready)) || (!orphaned && !p[1].revents))
			continue;
		__atomic_store_n(&box->orphaned, true, __ATOMIC_RELEASE);
		kill(g->tracer, g->life->poke);
		wait_ms = wait_ms < POKE_MAX_MS ? 2 * wait_ms : wait_ms;
	}
}

/* The owner is informed why (errno). */
static void __attribute__((noreturn)) give_up(const struct helper_life *life)
{
	snprintf(life->text, life->text_len, "%s", strerror(errno));
	_exit(1);
}

static pid_t start_tracer(const struct helper_life *life)
{
	pid_t pid = fork();

	if (!pid) {
		life->trace(life->ctx);
		_exit(1);
	}
	return pid;
}

void helper_guard_live(const struct helper_life *life)
{
	struct helper_guard g = { .life = life };
	char line[80];

	if (!helper_withdraw(life->owner_fd, life->memory_fd))
		give_up(life);
	helper_ignore_signals();
	helper_spare();
	snprintf(line, sizeof(line), "%s of process %d", life->name, life->target);
	helper_rename(life->name, line);
	if (!helper_guard_init(&g))
		give_up(life);
	life->box->guard_pid = getpid();
	if (life->prepare)
		life->prepare(life->ctx);
	g.tracer = start_tracer(life);
	if (g.tracer < 0)
		give_up(life);
	life->box->tracer_pid = g.tracer;
	/* Where that is refused, the tracer's end is seen when it is over. */
	ptrace(PTRACE_SEIZE, g.tracer, 0, PTRACE_O_TRACEEXIT);
	__atomic_store_n(&life->box->guarded, true, __ATOMIC_RELEASE);
	helper_guard_watch(&g);
	if (!life->box->finished)
		life->rescue(life->ctx);
	_exit(life->box->finished ? 0 : 1);
}
