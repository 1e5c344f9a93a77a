#include "watchctl/target/remote.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/task.h"
#include "watchctl/target/proc.h"

#define PAGE 4096u
#define SCRATCH_SIZE 0x4000u
#define RED_ZONE 128u
#define STOP_TIMEOUT_MS 200u
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
				"process %d is being traced by %s, so the handler cannot be put into it: "
				"detach that tracer for a moment (arming itself needs no tracer)",
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
			"no thread of process %d could be stopped: all are in uninterruptible kernel "
			"calls; try again when it goes on",
			pid);
	default:
		return wc_error_new(WC_ETARGET, "process %d ended", pid);
	}
}

struct wc_error *remote_open(pid_t pid, pid_t tid, struct tracee *held, struct remote *ret)
{
	struct candidate candidate[CANDIDATES];
	enum tracee_stop_result r = TRACEE_GONE, worst = TRACEE_GONE;
	struct thread_ids ids = { 0 };
	struct remote remote = { 0 };
	size_t i, n = 0;

	if (held && held->tid) {
		*ret = (struct remote){ .thread = *held, .held = held };
		return NULL;
	}
	if (tid) {
		candidate[n++] = (struct candidate){ tid, 0 };
	} else {
		if (!proc_threads(pid, &ids))
			return explain(pid, TRACEE_GONE);
		for (i = 0; i < ids.n && n < CANDIDATES; i++) {
			if (proc_is_ending(pid, ids.v[i]))
				continue;
			candidate[n] = (struct candidate){ ids.v[i], thread_disturbance(pid, ids.v[i]) };
			if (!candidate[n++].cost)
				break;
		}
		thread_ids_deinit(&ids);
		qsort(candidate, n, sizeof(candidate[0]), by_cost);
	}
	for (i = 0; i < n; i++) {
		r = tracee_stop(pid, candidate[i].tid, STOP_TIMEOUT_MS, &remote.thread);
		if (r == TRACEE_STOPPED) {
			*ret = remote;
			return NULL;
		}
		if (r != TRACEE_GONE)
			worst = r;
		if (r == TRACEE_TRACED || r == TRACEE_DENIED)
			break;
	}
	return explain(pid, worst);
}

struct stack_query {
	uint64_t start, end;
};

static bool find_main_stack(void *ctx, const struct proc_map *m)
{
	struct stack_query *q = ctx;

	if (strcmp(m->name, "[stack]") != 0)
		return true;
	q->start = m->start;
	q->end = m->end;
	return false;
}

/* True when none of the pages was ever touched: nobody's data can be there. */
static bool untouched(pid_t pid, uint64_t addr, uint64_t len)
{
	uint64_t entry[SCRATCH_SIZE / PAGE];
	size_t i, n = len / PAGE;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/pagemap", task_with_memory(pid));
	scoped(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || pread(fd, entry, 8 * n, (off_t)(addr / PAGE * 8)) != (ssize_t)(8 * n))
		return false;
	for (i = 0; i < n; i++)
		if (entry[i] >> 62) /* present or swapped */
			return false;
	return true;
}

/*
 * Memory for the first frame. Best: the lowest pages of the main stack, which no thread has reached.
 * Else the stopped thread's own stack below its red zone, where a signal handler's frame would go,
 * provided there is ample room: a coroutine's few kilobytes are refused.
 */
static struct wc_error *find_scratch(struct remote *r)
{
	struct stack_query main_stack = { 0 };
	uint64_t sp = r->thread.home.rsp;
	struct proc_map map;

	proc_maps(r->thread.pid, find_main_stack, &main_stack);
	r->scratch_len = SCRATCH_SIZE;
	if (main_stack.end - main_stack.start >= 2 * SCRATCH_SIZE &&
	    untouched(r->thread.pid, main_stack.start, SCRATCH_SIZE)) {
		r->scratch = main_stack.start;
		return NULL;
	}
	if (proc_map_at(r->thread.pid, sp, &map) && map.write && !map.shared &&
	    sp - map.start > 4 * SCRATCH_SIZE && map.start <= sp) {
		r->scratch = ((sp - RED_ZONE - SCRATCH_SIZE) & ~63ull);
		r->scratch_len = SCRATCH_SIZE - 64;
		return NULL;
	}
	return wc_error_new(
		WC_ENOTSUP,
		"thread %d of process %d runs on a stack too small to borrow from: try again, another "
		"thread may be chosen",
		r->thread.tid, r->thread.pid);
}

struct wc_error *remote_use_gadgets(struct remote *r, const struct gadgets *g)
{
	struct wc_error *err = find_scratch(r);
	uint64_t word[4], frame;
	unsigned int n = gadgets_chain(g, word);

	if (err)
		return err;
	frame = r->scratch + 64;
	if (!tracee_build_frame(&r->thread, frame))
		return wc_error_new(WC_ENOTSUP, "the register state of thread %d does not fit a signal frame",
				    r->thread.tid);
	if (!proc_write(r->thread.pid, frame, r->thread.frame, r->thread.frame_len) ||
	    !proc_write(r->thread.pid, frame - 8 * n, word, 8 * n))
		return wc_error_errno(WC_EPERM, errno, "cannot write into process %d", r->thread.pid);
	r->rip = g->syscall_ret;
	r->rsp = frame - 8 * n;
	return NULL;
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
	static const uint8_t zero[SCRATCH_SIZE];

	if (r->scratch)
		proc_write(r->thread.pid, r->scratch, zero, 64 + r->thread.frame_len);
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
	*r = (struct remote){ 0 };
	return ns;
}
