#include "watchctl/target/stop/stop_all.h"

#include <stdlib.h>
#include <sys/ptrace.h>
#include <time.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/vec.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/held.h"

#define STOP_TIMEOUT_MS 20u
#define PATIENCE_NS 3000000000ull
#define PAUSE_NS 2000000

static bool has(const struct stop_all *s, pid_t tid)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].tid == tid)
			return true;
	return false;
}

struct pass {
	size_t stopped; /* that were running before */
	pid_t busy;	/* one that did not stop; 0: none */
	struct wc_error *err;
};

static struct wc_error *refused(pid_t pid, pid_t tid, enum tracee_stop_result r)
{
	struct proc_status s;
	char who[64];

	if (r == TRACEE_TRACED && proc_status_read(pid, tid, &s) && s.tracer) {
		proc_describe(s.tracer, who, sizeof(who));
		return wc_error_new(WC_EPERM,
				    "thread %d of process %d is traced by %s, so that it cannot be stopped: "
				    "detach that tracer first",
				    tid, pid, who);
	}
	return wc_error_new(
		WC_EPERM,
		"not permitted to stop thread %d of process %d: run watchctl as its owner or as root; "
		"kernel.yama.ptrace_scope must allow it (0, or CAP_SYS_PTRACE)",
		tid, pid);
}

static void stop_one(struct stop_all *s, pid_t pid, pid_t tid, struct pass *p)
{
	struct tracee t;
	enum tracee_stop_result r;

	if (has(s, tid) || proc_is_ending(pid, tid))
		return;
	r = tracee_stop(pid, tid, STOP_TIMEOUT_MS, &t);
	if (r == TRACEE_BUSY) {
		p->busy = tid;
	} else if (r == TRACEE_STOPPED) {
		p->stopped++;
		if (!vec_push(s->v, s->n, s->cap, t)) {
			tracee_release(&t);
			p->err = &wc_enomem;
		}
	} else if (r != TRACEE_GONE) {
		p->err = refused(pid, tid, r);
	}
}

/* One that cannot stop now is looked for before the others have to wait for it. */
static pid_t find_busy(const struct thread_ids *ids)
{
	struct proc_status s;

	for (size_t i = 0; i < ids->n; i++)
		if (proc_status_read(ids->v[i], ids->v[i], &s) && s.state == 'D')
			return ids->v[i];
	return 0;
}

static void stop_threads(struct stop_all *s, pid_t pid, struct pass *p)
{
	struct thread_ids ids;

	if (!proc_threads(pid, &ids)) {
		p->err = proc_unread_error(pid);
		return;
	}
	if (s->n <= (s->held ? 1 : 0))
		p->busy = find_busy(&ids);
	for (size_t i = 0; i < ids.n && !p->busy && !p->err; i++)
		stop_one(s, pid, ids.v[i], p);
	thread_ids_deinit(&ids);
}

static void stop_sharers(struct stop_all *s, pid_t pid, struct pass *p)
{
	struct thread_ids ids = { 0 };
	struct thread_ids threads;

	if (!proc_made_sharer(pid))
		return;
	proc_sharers(pid, &ids);
	for (size_t i = 0; i < ids.n && !p->busy && !p->err; i++) {
		if (!proc_threads(ids.v[i], &threads))
			continue;
		for (size_t k = 0; k < threads.n && !p->busy && !p->err; k++)
			stop_one(s, ids.v[i], threads.v[k], p);
		thread_ids_deinit(&threads);
	}
	thread_ids_deinit(&ids);
}

/* Until nobody runs who could make another thread. */
static struct pass stop_round(struct stop_all *s, pid_t pid)
{
	struct pass p;

	do {
		p = (struct pass){ 0 };
		stop_threads(s, pid, &p);
		if (!p.busy && !p.err)
			stop_sharers(s, pid, &p);
	} while (p.stopped && !p.busy && !p.err);
	return p;
}

static bool begin(struct stop_all *s, struct tracee *held)
{
	*s = (struct stop_all){ .began_ns = monotonic_ns() };
	if (held && held->tid) {
		if (!vec_push(s->v, s->n, s->cap, *held))
			return false;
		s->held = held;
	}
	urgent_begin(&s->urgent);
	return true;
}

struct wc_error *stop_all(pid_t pid, struct tracee *held, struct stop_all *ret)
{
	uint64_t until = monotonic_ns() + PATIENCE_NS;
	struct stop_all s;
	struct pass p;

	for (;;) {
		if (!begin(&s, held))
			return &wc_enomem;
		p = stop_round(&s, pid);
		if (!p.busy && !p.err && s.n) {
			*ret = s;
			return NULL;
		}
		stop_all_release(&s);
		if (p.err)
			return p.err;
		if (!p.busy)
			return wc_error_new(WC_ETARGET, "process %d ended", pid);
		if (monotonic_ns() > until)
			return wc_error_new(
				WC_ENOTSUP,
				"thread %d of process %d does not stop: it is in an uninterruptible system "
				"call, has made a child that uses its memory (vfork), or is frozen; try again",
				p.busy, pid);
		nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
	}
}

uint64_t stop_all_release(struct stop_all *s)
{
	uint64_t stood = s->n ? monotonic_ns() - s->began_ns : 0;

	for (size_t i = 0; i < s->n; i++)
		if (s->held && i == 0)
			*s->held = s->v[0];
		else
			tracee_release(&s->v[i]);
	urgent_end(&s->urgent);
	free(s->v);
	*s = (struct stop_all){ 0 };
	return stood;
}

bool tracee_move(struct tracee *t, uint64_t rip, const uint64_t *rcx)
{
	t->home.rip = rip;
	if (rcx)
		t->home.rcx = *rcx;
	return !held_ptrace(PTRACE_SETREGS, t->tid, 0, &t->home);
}

/*
 * A thread at the beginning of a signal handler still has the number of the call that the signal came in or at the end of (setup_rt_frame()
 * in arch/x86/kernel/signal_64.c leaves it): so its instruction has to be there, too. syscall, int $0x80, sysenter: all of two bytes.
 */
bool tracee_in_syscall(const struct tracee *t)
{
	static const uint16_t insns[] = { 0x050f, 0x80cd, 0x340f };
	const struct memory_view mem = proc_memory(&t->pid);
	uint16_t there;

	if ((long)t->home.orig_rax < 0 || !memory_read(&mem, t->home.rip - 2, &there, sizeof(there)))
		return false;
	for (size_t i = 0; i < sizeof(insns) / sizeof(insns[0]); i++)
		if (there == insns[i])
			return true;
	return false;
}
