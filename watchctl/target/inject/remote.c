#include "watchctl/target/inject/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/target/inject/scratch.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/dispatch.h"

#define STOP_TIMEOUT_MS 200u
#define SCRATCH_TRIES 20u
#define CANDIDATES 16u

/* How little a stop disturbs a thread that is in system call @nr; 0 is best. */
static unsigned int disturbance(long nr)
{
	switch (nr) {
	case -1: /* stopped in user mode */
		return 0;
	case 202: /* futex */
	case 35:  /* nanosleep */
	case 230: /* clock_nanosleep */
	case 7:	  /* poll */
	case 0:	  /* read */
	case 61:  /* wait4 */
		return 1;
	case 232: /* epoll_wait: EINTR, undone in tracee.c at the price of a longer wait */
	case 281: /* epoll_pwait */
	case 441: /* epoll_pwait2 */
	case 128: /* rt_sigtimedwait */
	case 65:  /* semop */
	case 220: /* semtimedop */
	case 208: /* io_getevents */
	case 43:  /* accept, recvfrom, recvmsg, accept4: of a socket with a time-out */
	case 45:
	case 47:
	case 288:
		return 3;
	default:
		return 2;
	}
}

static unsigned int thread_disturbance(pid_t pid, pid_t tid)
{
	char path[64], text[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return 4;
	if (!strncmp(text, "running", 7))
		return 0;
	return disturbance(strtol(text, NULL, 10));
}

struct candidate {
	pid_t tid;
	unsigned int cost;
};

static int by_cost(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->cost < y->cost ? -1 : x->cost > y->cost;
}

static struct wc_error *explain(pid_t pid, enum tracee_stop_result r)
{
	struct proc_status s;
	char who[64];

	switch (r) {
	case TRACEE_TRACED:
		if (proc_status_read(pid, pid, &s) && s.tracer) {
			proc_describe(s.tracer, who, sizeof(who));
			return wc_error_new(
				WC_EPERM,
				"process %d is traced by %s, so that it cannot be stopped to place the handler: "
				"detach that tracer briefly, or use --engine ring, which needs no stop",
				pid, who);
		}
		return wc_error_new(WC_EPERM, "process %d is being traced by another program", pid);
	case TRACEE_DENIED:
		return wc_error_new(
			WC_EPERM,
			"not permitted to stop a thread of process %d: run watchctl as its owner or as "
			"root; kernel.yama.ptrace_scope must allow it (0, or CAP_SYS_PTRACE)",
			pid);
	case TRACEE_BUSY:
		return wc_error_new(
			WC_ENOTSUP,
			"no thread of process %d could be stopped: all are in uninterruptible system calls, or frozen "
			"(cgroup freezer); try again when it runs",
			pid);
	default:
		return wc_error_new(WC_ETARGET, "process %d ended", pid);
	}
}

static bool is_sandboxed(pid_t pid, pid_t tid)
{
	struct proc_status s;

	return proc_status_read(pid, tid, &s) && s.seccomp;
}

typedef struct wc_error *explainer(pid_t pid);

static struct wc_error *explain_sandbox(pid_t pid)
{
	return wc_error_new(
		WC_ENOTSUP,
		"process %d runs under seccomp: a thread could be killed for a system call made on behalf of "
		"watchctl, so that none is made",
		pid);
}

static struct wc_error *explain_dispatch(pid_t pid)
{
	return wc_error_new(
		WC_ENOTSUP,
		"process %d dispatches system calls itself (syscall user dispatch, as Wine does): it "
		"could be killed by SIGSYS for a system call made on behalf of watchctl, so that none is "
		"made",
		pid);
}

/* Why a thread that stands still must make no system call for us; NULL: it may. */
static explainer *bar_of(const struct tracee *t)
{
	if (is_sandboxed(t->pid, t->tid))
		return explain_sandbox;
	return dispatch_bars(t) ? explain_dispatch : NULL;
}

struct wc_error *remote_open(pid_t pid, pid_t tid, struct tracee *held, struct remote *ret)
{
	struct candidate candidate[CANDIDATES];
	enum tracee_stop_result r = TRACEE_GONE, worst = TRACEE_GONE;
	explainer *barred = NULL, *bar;
	struct thread_ids ids = { 0 };
	struct remote remote = { .any = !tid };
	size_t i, n = 0;

	if (held && held->tid) {
		bar = bar_of(held);
		if (bar)
			return bar(pid);
		*ret = (struct remote){ .thread = *held, .held = held };
		return NULL;
	}
	if (tid) {
		candidate[n++] = (struct candidate){ tid, 0 };
	} else {
		if (!proc_threads(pid, &ids))
			return proc_unread_error(pid);
		for (i = 0; i < ids.n && n < CANDIDATES; i++) {
			if (proc_is_ending(pid, ids.v[i]))
				continue;
			if (is_sandboxed(pid, ids.v[i])) {
				barred = explain_sandbox;
				continue;
			}
			candidate[n] = (struct candidate){ ids.v[i], thread_disturbance(pid, ids.v[i]) };
			if (!candidate[n++].cost)
				break;
		}
		thread_ids_deinit(&ids);
		qsort(candidate, n, sizeof(candidate[0]), by_cost);
	}
	for (i = 0; i < n; i++) {
		urgent_begin(&remote.urgent);
		r = tracee_stop(pid, candidate[i].tid, STOP_TIMEOUT_MS, &remote.thread);
		bar = r == TRACEE_STOPPED ? bar_of(&remote.thread) : NULL;
		if (r == TRACEE_STOPPED && !bar) {
			*ret = remote;
			return NULL;
		}
		if (bar)
			tracee_release(&remote.thread);
		urgent_end(&remote.urgent);
		if (bar) {
			barred = bar;
			continue;
		}
		if (r != TRACEE_GONE)
			worst = r;
		if (r == TRACEE_TRACED || r == TRACEE_DENIED)
			break;
	}
	return barred && worst == TRACEE_GONE ? barred(pid) : explain(pid, worst);
}

static struct wc_error *explain_scratch(pid_t pid, pid_t away)
{
	if (away)
		return wc_error_new(
			WC_ENOTSUP,
			"thread %d of process %d was stopped by a watchctl that was killed, and has not run since (it "
			"is stopped, frozen or gets no CPU time): try again when it has run",
			away, pid);
	return wc_error_new(
		WC_ENOTSUP,
		"no memory of process %d is certainly unused: its main thread is deep in its stack, or runs on a "
		"stack made by the program (coroutines), so that nothing can be placed there; try again, or use "
		"--engine ring or ptrace",
		pid);
}

struct wc_error *remote_open_prepared(pid_t pid, pid_t tid, struct tracee *held, struct remote *ret)
{
	struct layout *l = layout_read(pid);
	struct wc_error *err = remote_open(pid, tid, held, ret);

	if (err)
		layout_free(l);
	else
		ret->layout = l;
	return err;
}

/*
 * One that is up to date. While somebody else's thread is ours to use it stands still anyway; any other is
 * let go meanwhile: false.
 */
static bool has_layout(struct remote *r)
{
	if (r->layout && layout_is_current(r->layout))
		return true;
	if (r->layout && !r->held)
		return false;
	layout_free(r->layout);
	r->layout = layout_read(r->thread.pid);
	return r->layout;
}

/* Every other time; 0: whichever minds least. */
static pid_t the_main_one_at_times(pid_t pid, unsigned int i)
{
	return i % 2 || proc_is_ending(pid, pid) ? 0 : pid;
}

/*
 * A piece of memory that is certainly nobody's, with the way home in it. Where there is none for this thread
 * the main thread may do, and a moment later things may have changed.
 */
static struct wc_error *prepare_scratch(struct remote *r, const struct gadgets *g, const uint64_t *word,
					unsigned int n)
{
	const struct remote_undo undo = r->undo;
	const pid_t pid = r->thread.pid;
	uint8_t detour[TRACEE_DETOUR_FRAME];
	pid_t away = 0, tid;
	unsigned int i;
	bool any;

	for (i = 0; i < SCRATCH_TRIES; i++) {
		bool current = has_layout(r);
		struct wc_error *err;
		uint64_t at;

		if (!gadgets_are_there(pid, g))
			return wc_error_new(
				WC_ETARGET,
				"process %d now executes another program, or has unmapped the code that watchctl "
				"needs for its system calls",
				pid);
		if (current && scratch_find(&r->thread, r->layout, &at, &away)) {
			if (!tracee_build_frame(&r->thread, at + SCRATCH_FRAME))
				return wc_error_new(
					WC_ENOTSUP,
					"the register state of thread %d does not fit a signal frame",
					r->thread.tid);
			r->scratch = at;
			if (undo.len)
				tracee_build_detour(&r->thread, g->syscall_ret, at + SCRATCH_FRAME - 8 * n,
						    undo.nr, undo.addr, undo.len, detour);
			if (scratch_write(&r->thread, at, word, n, undo.len ? detour : NULL))
				return NULL;
			r->scratch = 0;
		}
		if (r->held || (current && !r->any))
			break;
		any = r->any;
		tid = !any ? r->thread.tid : away ? away : !current ? 0 : the_main_one_at_times(pid, i);
		remote_close(r);
		nanosleep(&(struct timespec){ .tv_nsec = i * 1000000 }, NULL);
		err = remote_open_prepared(pid, tid, NULL, r);
		if (err)
			return err;
		r->any = any;
		r->undo = undo;
	}
	return explain_scratch(pid, away);
}

struct wc_error *remote_use_gadgets(struct remote *r, const struct gadgets *g)
{
	uint64_t word[4];
	unsigned int n = gadgets_chain(g, word);
	struct wc_error *err = prepare_scratch(r, g, word, n);

	if (err)
		return err;
	r->rip = g->syscall_ret;
	r->home_rsp = r->scratch + SCRATCH_FRAME - 8 * n;
	r->undo_rsp = r->undo.len ? scratch_detour(&r->thread, r->scratch) - 8 * n : r->home_rsp;
	r->rsp = r->undo_rsp;
	return NULL;
}

struct wc_error *remote_use_gadgets_undoing(struct remote *r, const struct gadgets *g,
					    const struct remote_undo *undo)
{
	r->undo = *undo;
	return remote_use_gadgets(r, g);
}

void remote_keep(struct remote *r)
{
	r->rsp = r->home_rsp;
}

void remote_undo_from_here(struct remote *r)
{
	r->rsp = r->undo_rsp;
}

struct wc_error *remote_use_stub(struct remote *r, uint64_t rip, uint64_t frame)
{
	if (!tracee_build_frame(&r->thread, frame))
		return wc_error_new(WC_ENOTSUP, "the register state of thread %d does not fit a signal frame",
				    r->thread.tid);
	if (!proc_write(r->thread.pid, frame, r->thread.frame, r->thread.frame_len))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", r->thread.pid);
	r->rip = rip;
	r->rsp = frame;
	return NULL;
}

struct wc_error *remote_syscall(struct remote *r, long nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
				uint64_t e, uint64_t f, long *ret)
{
	const uint64_t arg[6] = { a, b, c, d, e, f };

	return tracee_syscall(&r->thread, r->rip, r->rsp, nr, arg, ret);
}

static void wipe_scratch(void *ctx)
{
	const struct remote *r = ctx;

	if (r->scratch)
		scratch_give_back(&r->thread, r->scratch);
}

uint64_t remote_close(struct remote *r)
{
	uint64_t ns = 0;

	if (r->thread.tid) {
		wc_error_free(tracee_go_home(&r->thread, wipe_scratch, r));
		if (r->held) {
			free(r->thread.frame);
			r->held->away = false;
		} else {
			ns = tracee_release(&r->thread);
		}
	}
	urgent_end(&r->urgent);
	layout_free(r->layout);
	*r = (struct remote){ 0 };
	return ns;
}
