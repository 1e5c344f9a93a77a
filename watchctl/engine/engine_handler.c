/*
 * engine_handler - the default engine: the CPU traps, a handler inside the program records, this side
 * reads along. See handler/wire.h for the memory between the two and docs/architecture.md for the whole.
 *
 * Order is safety: install the handler, then arm; disarm, drain, and only then uninstall.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/engine/dregs.h"
#include "watchctl/engine/engine.h"
#include "watchctl/engine/intake.h"
#include "watchctl/engine/perf_bp.h"
#include "watchctl/engine/perf_guard.h"
#include "watchctl/engine/ptrace_bp.h"
#include "watchctl/engine/tsc_clock.h"
#include "watchctl/target/inject.h"
#include "watchctl/target/proc.h"

#define PASS_NS 5000000ull	   /* how long the controller sleeps between looks at the ring */
#define PRIVATE_PASS_NS 1000000ull /* ... where the handler cannot wake it */
#define CHECK_NS 50000000ull	   /* how often it looks whether the target is still what it was */
#define MODULES_NS 1000000000ull   /* how often it looks at the modules unasked */
#define SETTLE_MS 30u
#define FLUSH_MS 100u
#define TRAP_PERF_CODE 6
#define TRAP_HWBKPT_CODE 4

/* What the engine knows of watch i beside what its intake does. */
struct armed_watch {
	bool armed, disabled;
	struct watchpoint w;
	struct perf_bp perf;
	struct ptrace_bp ptrace;
	uint64_t counted, self_tests;
};

struct engine {
	pid_t pid;
	struct engine_options options;
	struct injection inj;
	struct intake intake;
	struct perf_guard *guard; /* NULL: not permitted */
	uint64_t cookie;
	uint32_t control_flags;
	struct armed_watch watch[ENGINE_WATCHES];
	int pidfd;
	int registers_before; /* in use in a thread of the target before we armed any */
	uint64_t checked_ns;
	bool stopped, settled; /* disarmed; and no SIGTRAP of ours can come any more */
	bool gone, execed;
	char why[256];
};

static void say(const struct engine *e, const char *text)
{
	if (e->options.say)
		e->options.say(e->options.say_ctx, "%s", text);
}

static uint64_t shared_size(size_t ring)
{
	return WIRE_CONTROL_SIZE + WIRE_BOOT_SIZE + WIRE_ACCESS_FACTS * sizeof(struct wire_access_fact) +
	       WIRE_RULES * sizeof(struct wire_rule) + ring;
}

static void lay_out(struct wire_control *c, const struct engine_options *o)
{
	c->facts_offset = WIRE_CONTROL_SIZE + WIRE_BOOT_SIZE;
	c->rules_offset = c->facts_offset + WIRE_ACCESS_FACTS * sizeof(struct wire_access_fact);
	c->ring_offset = c->rules_offset + WIRE_RULES * sizeof(struct wire_rule);
	c->ring_size = o->buffer_size;
	c->max_frames = o->frames;
	c->raw_size = (uint32_t)(o->buffer_size / 8 < WIRE_RAW_MAX ? o->buffer_size / 8 : WIRE_RAW_MAX);
	c->wake = 1;
	if (tsc_usable())
		c->flags |= WIRE_USE_TSC;
}

static struct wc_error *refuse_unsafe(pid_t pid)
{
	struct proc_status s;

	if (!proc_status_read(pid, pid, &s))
		return wc_error_new(WC_ETARGET, "process %d ended", pid);
	if (s.seccomp)
		return wc_error_new(WC_ENOTSUP,
				    "process %d (%s) runs under a seccomp %s: it may be killed for the "
				    "system calls of the "
				    "handler, so the handler engine is refused",
				    pid, s.name, s.seccomp == 1 ? "strict mode" : "filter");
	if (s.shadow_stack)
		return wc_error_new(
			WC_ENOTSUP,
			"process %d (%s) runs with a shadow stack: the handler cannot be put into it without "
			"breaking that protection",
			pid, s.name);
	return NULL;
}

static struct wc_error *close_engine(struct engine *e);

static void open_guard(struct engine *e)
{
	const char *missing;

	e->guard = perf_guard_open(e->inj.handler, &missing);
	if (e->options.say)
		e->options.say(e->options.say_ctx, "guard against a replaced SIGTRAP handler: %s",
			       e->guard ? "in place" : missing);
}

static void tell_placed(const struct engine *e)
{
	if (!e->options.say || !e->inj.stop_ns)
		return;
	e->options.say(e->options.say_ctx,
		       "handler placed: thread %d was stopped for %llu us; the event buffer is %s",
		       e->inj.stop_tid, (unsigned long long)e->inj.stop_ns / 1000,
		       e->inj.shared ? "shared memory"
				     : "read through the kernel (to share it takes CAP_CHECKPOINT_RESTORE)");
}

static struct wc_error *open_engine(pid_t pid, const struct engine_options *o, struct event_sink sink,
				    struct engine **ret)
{
	struct wire_control control = { 0 };
	struct wc_error *err = proc_check(pid);
	struct engine *e;

	if (!err)
		err = refuse_unsafe(pid);
	if (err)
		return err;
	e = calloc(1, sizeof(*e));
	if (!e)
		return &wc_enomem;
	e->pid = pid;
	e->options = *o;
	e->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (e->pidfd < 0) {
		err = wc_error_errno(WC_ETARGET, errno, "cannot follow process %d", pid);
		wc_error_free(close_engine(e));
		return err;
	}
	if (getrandom(&control.cookie, sizeof(control.cookie), 0) < 0 ||
	    getrandom(&control.commit_key, sizeof(control.commit_key), 0) < 0)
		control.commit_key = control.cookie = monotonic_ns() * 0x9e3779b97f4a7c15u;
	control.cookie &= ~0xffull;
	e->cookie = control.cookie;
	lay_out(&control, o);
	e->registers_before = perf_bp_used(pid);
	err = inject_place(pid, &control, shared_size(o->buffer_size), o->private_ring, o->held, &e->inj);
	if (!err)
		err = intake_init(&e->intake, pid, o->frames, sink, &e->inj, &control);
	if (err) {
		wc_error_free(close_engine(e));
		return err;
	}
	open_guard(e);
	tell_placed(e);
	*ret = e;
	return NULL;
}

static uint64_t watch_offset(unsigned int i)
{
	return offsetof(struct wire_control, watch) + i * sizeof(struct wire_watch);
}

static bool read_value(const struct engine *e, const struct watchpoint *w, uint64_t *ret)
{
	struct memory_view mem = proc_memory(&e->pid);

	*ret = 0;
	return memory_read(&mem, w->addr, ret, w->size);
}

static struct wc_error *check_address(const struct engine *e, const struct watchpoint *w)
{
	struct proc_map m;

	if (!dregs_fits(w->addr, w->size))
		return wc_error_new(WC_EUSAGE,
				    "%u bytes at 0x%llx do not fit a debug register: it watches 1, 2, 4 or 8 "
				    "bytes, aligned "
				    "to their number; choose with -s",
				    w->size, (unsigned long long)w->addr);
	if (!proc_map_at(e->pid, w->addr, &m))
		return wc_error_new(WC_ENAME, "nothing is mapped at 0x%llx in process %d",
				    (unsigned long long)w->addr, e->pid);
	return NULL;
}

static unsigned int armed_count(const struct engine *e)
{
	unsigned int i, n = 0;

	for (i = 0; i < ENGINE_WATCHES; i++)
		n += e->watch[i].armed;
	return n;
}

static bool has_ptrace_watch(const struct engine *e)
{
	unsigned int i;

	for (i = 0; i < ENGINE_WATCHES; i++)
		if (e->watch[i].armed && e->watch[i].w.slot >= 0)
			return true;
	return false;
}

static uint32_t wire_flags(const struct watchpoint *w)
{
	uint32_t flags = 0;

	if (w->access == ACCESS_READ || w->access == ACCESS_READWRITE)
		flags |= WIRE_WATCH_READS;
	if (w->access == ACCESS_READ)
		flags |= WIRE_WATCH_READS_ONLY;
	if (w->access == ACCESS_EXECUTE)
		flags |= WIRE_WATCH_EXECUTE;
	if (w->hook)
		flags |= WIRE_WATCH_HOLD;
	return flags;
}

/* A page whose rewriting nobody can notice: private memory of the program itself. */
static bool may_rewrite(pid_t pid, uint64_t addr)
{
	struct proc_map m;

	return proc_map_at(pid, addr, &m) && m.write && !m.shared;
}

static struct wc_error *self_test(struct engine *e, struct armed_watch *a, struct arm_report *report)
{
	bool write = a->w.access == ACCESS_WRITE, seen = false;
	struct wc_error *err;

	if (a->w.access == ACCESS_EXECUTE || (write && !may_rewrite(e->pid, a->w.addr)))
		return NULL;
	err = inject_self_test(&e->inj, 1, &a->w.addr, &write,
			       a->w.slot < 0 ? TRAP_PERF_CODE : TRAP_HWBKPT_CODE, &seen);
	if (err) {
		/* It is a courtesy: being busy is no reason to give up the watch. */
		say(e, err->text);
		wc_error_free(err);
		return NULL;
	}
	a->self_tests += seen;
	report->verified = seen;
	return NULL;
}

static struct wc_error *arm_registers(struct engine *e, unsigned int i, struct arm_report *report)
{
	struct armed_watch *a = &e->watch[i];
	const struct watchpoint *w = &a->w;
	struct perf_bp_spec spec = {
		.addr = w->addr,
		.size = w->size,
		.access = w->access,
		.sig_data = e->cookie | i,
		.others = armed_count(e),
		.guard = e->guard,
		.used = (e->registers_before > 0 ? (unsigned int)e->registers_before : 0) + armed_count(e),
	};
	struct wc_error *err;

	if (w->slot < 0) {
		err = perf_bp_open(e->pid, &spec, &a->perf, &report->threads, &report->threads_armed);
		report->kernel = a->perf.kernel;
		return err;
	}
	err = ptrace_bp_open(e->pid, (unsigned int)w->slot, w->addr, w->size, w->access, e->inj.held,
			     &a->ptrace);
	if (!err)
		report->threads = report->threads_armed = (uint32_t)a->ptrace.armed.n;
	return err;
}

static struct wc_error *arm(struct engine *e, const struct watchpoint *w, struct arm_report *ret)
{
	struct wire_watch shared = { .addr = w->addr, .size = w->size, .flags = wire_flags(w) };
	struct arm_report report = { 0 };
	struct wc_error *err = check_address(e, w);
	unsigned int i;

	if (err)
		return err;
	for (i = 0; i < ENGINE_WATCHES && e->watch[i].armed; i++)
		;
	if (i == ENGINE_WATCHES)
		return wc_error_new(
			WC_ESLOTS, "no debug register is left: a CPU has %u, and this command holds them all",
			ENGINE_WATCHES);
	if (w->slot >= 0 && has_ptrace_watch(e))
		return wc_error_new(WC_ESLOTS, "only one watch can name its register (-i): the kernel does "
					       "not tell which of several "
					       "was hit; leave -i out for the others");
	if (w->access != ACCESS_EXECUTE)
		report.has_value = read_value(e, w, &report.value);
	shared.shadow = report.value;
	e->watch[i] = (struct armed_watch){ .w = *w };
	e->intake.watch[i] = (struct intake_watch){ .w = *w };
	injection_write(&e->inj, watch_offset(i), &shared, sizeof(shared));
	if (w->slot >= 0) {
		uint32_t hwbkpt = i + 1;

		injection_write(&e->inj, offsetof(struct wire_control, hwbkpt_watch), &hwbkpt,
				sizeof(hwbkpt));
	}
	err = arm_registers(e, i, &report);
	if (err)
		return err;
	e->watch[i].armed = true;
	err = self_test(e, &e->watch[i], &report);
	if (!err)
		*ret = report;
	return err;
}

/* No more hits of this watch, and its count is final. */
static void disable(struct armed_watch *a)
{
	if (!a->armed || a->disabled)
		return;
	a->disabled = true;
	if (a->w.slot >= 0) {
		ptrace_bp_close(&a->ptrace);
		return;
	}
	perf_bp_disable(&a->perf);
	a->counted = perf_bp_count(&a->perf) - a->self_tests;
	perf_bp_close(&a->perf);
}

static void disarm(struct engine *e, uint32_t id)
{
	unsigned int i;

	for (i = 0; i < ENGINE_WATCHES; i++)
		if (e->watch[i].armed && e->watch[i].w.id == id)
			disable(&e->watch[i]);
}

static void beat(struct engine *e)
{
	uint64_t n = monotonic_ns();

	injection_write(&e->inj, offsetof(struct wire_control, heartbeat), &n, sizeof(n));
}

/* Sleeps until a handler calls for help, or the time is over. */
static void wait_for_records(struct engine *e, uint64_t ns)
{
	struct timespec t = { .tv_nsec = (long)ns };
	uint32_t *wake;

	if (!e->inj.shared) {
		t.tv_nsec = ns < PRIVATE_PASS_NS ? (long)ns : (long)PRIVATE_PASS_NS;
		nanosleep(&t, NULL);
		return;
	}
	wake = (uint32_t *)((char *)e->inj.shared + offsetof(struct wire_control, wake));
	__atomic_store_n(wake, 0, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, wake, FUTEX_WAIT, 0, &t, NULL, 0);
	__atomic_store_n(wake, 1, __ATOMIC_SEQ_CST);
}

static void let_go(struct engine *e)
{
	uint64_t offset = offsetof(struct wire_control, hold);
	uint32_t hold = 0;

	if (!e->intake.hook_hit)
		return;
	e->intake.hook_hit = false;
	injection_read(&e->inj, offset, &hold, sizeof(hold));
	hold++;
	injection_write(&e->inj, offset, &hold, sizeof(hold));
	if (e->inj.shared)
		syscall(SYS_futex, (char *)e->inj.shared + offset, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static bool target_ended(const struct engine *e)
{
	struct pollfd p = { .fd = e->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

/* After exec the old memory is gone, ours with it. */
static bool target_execed(const struct engine *e)
{
	struct memory_view mem = proc_memory(&e->pid);
	uint64_t magic = 0;

	return !memory_read(&mem, e->inj.control, &magic, sizeof(magic)) || magic != WIRE_MAGIC;
}

/* Things that turn the watch into a danger for the target: then it is given up at once. */
static void check_safety(struct engine *e)
{
	struct proc_status s;

	if (e->intake.corrupt && !e->why[0])
		snprintf(e->why, sizeof(e->why),
			 "process %d wrote into the event buffer: it cannot be read any further", e->pid);

	if (e->why[0] || !proc_status_read(e->pid, e->pid, &s))
		return;
	if (perf_guard_suppressed(e->guard))
		snprintf(e->why, sizeof(e->why),
			 "process %d has installed a SIGTRAP handler of its own: hits since then were "
			 "counted, not "
			 "recorded, and none of them was sent to it",
			 e->pid);
	else if (!(s.caught & PROC_SIGTRAP))
		snprintf(e->why, sizeof(e->why),
			 "process %d has removed our SIGTRAP handler: a further hit could kill it", e->pid);
	else if (s.seccomp)
		snprintf(
			e->why, sizeof(e->why),
			"process %d has put itself under seccomp: a system call of the handler could kill it",
			e->pid);
}

static struct wc_error *check_target(struct engine *e, uint64_t now)
{
	struct wc_error *err = NULL;
	unsigned int i;

	if (now - e->checked_ns < CHECK_NS && !target_ended(e))
		return NULL;
	e->checked_ns = now;
	if (target_ended(e)) {
		e->gone = true;
		return NULL;
	}
	if (target_execed(e)) {
		e->execed = !target_ended(e);
		e->gone = true;
		return NULL;
	}
	check_safety(e);
	for (i = 0; i < ENGINE_WATCHES && !err; i++)
		if (e->watch[i].armed && !e->watch[i].disabled && e->watch[i].w.slot >= 0)
			err = ptrace_bp_extend(&e->watch[i].ptrace);
	if (!err)
		err = intake_refresh_modules(&e->intake, now, MODULES_NS);
	return err;
}

static void keep_first(struct wc_error **first, struct wc_error *err)
{
	if (*first)
		wc_error_free(err);
	else
		*first = err;
}

/* Once no more hits can come: the ring to its end, whatever the sink says to it. */
static struct wc_error *drain_all(struct engine *e)
{
	struct wc_error *err = NULL;
	bool any;

	do {
		beat(e);
		keep_first(&err, intake_pass(&e->intake, &any));
		let_go(e);
	} while (any);
	return err;
}

static struct wc_error *pump(struct engine *e, int timeout_ms, enum pump_result *ret)
{
	uint64_t now = monotonic_ns(), end = now + (uint64_t)timeout_ms * 1000000u;
	struct wc_error *err;
	bool any;

	let_go(e);
	for (;;) {
		beat(e);
		err = intake_pass(&e->intake, &any);
		if (!err)
			err = check_target(e, monotonic_ns());
		if (err)
			return err;
		now = monotonic_ns();
		if (e->intake.hook_hit) {
			*ret = PUMP_HOOK;
			return intake_refresh_modules(&e->intake, now, 0);
		}
		if (e->gone || e->why[0]) {
			err = drain_all(e); /* what was recorded between the last look and the end */
			*ret = e->execed ? PUMP_EXECED : e->gone ? PUMP_EXITED : PUMP_ENDED;
			return err;
		}
		if (now >= end)
			break;
		if (!any)
			wait_for_records(e, end - now < PASS_NS ? end - now : PASS_NS);
	}
	*ret = PUMP_IDLE;
	return NULL;
}

static const char *why(const struct engine *e)
{
	return e->why;
}

/*
 * Hits that the CPU counted and that have reached neither the ring nor a counter of ours. Such a hit is a
 * SIGTRAP still to come: queued, blocked, or, for an access by the kernel, not even queued before its
 * thread returns from the system call. (Or it never comes: the kernel merges what meets a pending one.)
 */
static uint64_t outstanding(const struct engine *e)
{
	uint64_t sum = 0, known;
	unsigned int i;

	for (i = 0; i < ENGINE_WATCHES; i++) {
		const struct armed_watch *a = &e->watch[i];
		struct wire_watch shared = { 0 };

		if (!a->armed || a->w.slot >= 0)
			continue;
		injection_read(&e->inj, watch_offset(i), &shared, sizeof(shared));
		known = e->intake.watch[i].seen + shared.filtered + shared.lost;
		sum += a->counted > known ? a->counted - known : 0;
	}
	known = perf_guard_suppressed(e->guard);
	return sum > known ? sum - known : 0;
}

static struct wc_error *settle(struct engine *e, unsigned int timeout_ms)
{
	struct wc_error *err = drain_all(e);
	uint64_t end = monotonic_ns() + timeout_ms * 1000000ull;

	while (!e->intake.corrupt && outstanding(e) && !target_ended(e) && monotonic_ns() < end) {
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
		keep_first(&err, drain_all(e));
	}
	return err;
}

/* A thread that blocks SIGTRAP holds ours back; it would die of it once our handler is gone. */
static void take_blocked(struct engine *e, pid_t tid)
{
	struct proc_status s;
	bool taken;

	if (proc_status_read(e->pid, tid, &s) && (s.pending & s.blocked & PROC_SIGTRAP))
		wc_error_free(inject_take_pending(&e->inj, tid, &taken));
}

/*
 * Through the kernel's signal path with every thread, once: what waited to be queued is queued then, and
 * delivered to our handler when the thread goes on. False: one of them could not be stopped.
 */
static bool flush_threads(struct engine *e)
{
	struct thread_ids ids;
	bool all = true;
	size_t i;

	if (!proc_threads(e->pid, &ids))
		return true;
	for (i = 0; i < ids.n; i++) {
		struct tracee t;
		enum tracee_stop_result r = tracee_stop(e->pid, ids.v[i], 200, &t);

		if (r == TRACEE_STOPPED)
			tracee_release(&t);
		else if (r != TRACEE_GONE)
			all = false;
		take_blocked(e, ids.v[i]);
	}
	thread_ids_deinit(&ids);
	return all;
}

static bool any_pending(const struct engine *e)
{
	struct thread_ids ids;
	struct proc_status s;
	bool pending = false;
	size_t i;

	if (!proc_threads(e->pid, &ids))
		return false;
	for (i = 0; i < ids.n && !pending; i++)
		pending = proc_status_read(e->pid, ids.v[i], &s) && (s.pending & PROC_SIGTRAP);
	thread_ids_deinit(&ids);
	return pending;
}

/* Every watch disarmed; now every hit must have arrived, or be known never to arrive. */
static struct wc_error *stop(struct engine *e)
{
	struct wc_error *err;
	unsigned int i;

	let_go(e);
	for (i = 0; i < ENGINE_WATCHES; i++)
		disable(&e->watch[i]);
	err = settle(e, SETTLE_MS);
	e->stopped = true;
	e->settled = true;
	if (e->gone || target_ended(e) || (!outstanding(e) && !has_ptrace_watch(e)))
		return err;
	e->settled = flush_threads(e);
	keep_first(&err, settle(e, FLUSH_MS));
	for (i = 0; i < FLUSH_MS && any_pending(e); i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		keep_first(&err, drain_all(e));
	}
	e->settled = e->settled && !any_pending(e);
	return err;
}

static void counts(const struct engine *e, uint32_t id, struct engine_counts *ret)
{
	struct engine_counts c = { .replaced = perf_guard_suppressed(e->guard) };
	unsigned int i;

	for (i = 0; i < ENGINE_WATCHES; i++) {
		const struct armed_watch *a = &e->watch[i];
		struct wire_watch shared = { 0 };
		uint64_t known;

		if (a->w.id != id || !a->w.size || a->w.hook)
			continue;
		injection_read(&e->inj, watch_offset(i), &shared, sizeof(shared));
		c.recorded = e->intake.watch[i].recorded;
		c.filtered = e->intake.watch[i].filtered + shared.filtered;
		c.lost_full = shared.lost;
		c.has_counted = a->w.slot < 0;
		c.counted = a->disabled ? a->counted : perf_bp_count(&a->perf) - a->self_tests;
		known = c.recorded + c.filtered + c.lost_full;
		if (!c.has_counted)
			c.counted = known;
		else if (c.counted > known)
			c.lost_merged = c.counted - known;
	}
	*ret = c;
}

static struct wc_error *withdraw(struct engine *e)
{
	bool replaced = false;
	struct wc_error *err = NULL;

	if (!e->inj.base || e->pidfd < 0 || e->gone || target_ended(e) || target_execed(e))
		return NULL;
	if (!e->stopped)
		wc_error_free(stop(e)); /* the caller has an error to report already */
	if (!e->settled)
		return wc_error_new(WC_EFAIL,
				    "a SIGTRAP of ours may still wait in a thread of process %d: the handler "
				    "is left in place, "
				    "where it does nothing but pass signals on",
				    e->pid);
	if (e->inj.installed)
		err = inject_uninstall(&e->inj, &replaced);
	if (err)
		return err;
	if (replaced)
		return wc_error_new(WC_EFAIL,
				    "process %d has installed its own SIGTRAP handler meanwhile, and may put "
				    "ours back: ours "
				    "is left mapped, where it does nothing but pass signals on",
				    e->pid);
	return inject_remove(&e->inj);
}

static struct wc_error *close_engine(struct engine *e)
{
	struct wc_error *err;
	unsigned int i;

	if (!e)
		return NULL;
	for (i = 0; i < ENGINE_WATCHES; i++)
		disable(&e->watch[i]);
	err = withdraw(e);
	if (e->pidfd >= 0 && target_ended(e)) {
		wc_error_free(err);
		err = NULL;
	}
	perf_guard_close(e->guard);
	intake_deinit(&e->intake);
	injection_deinit(&e->inj);
	closep(&e->pidfd);
	free(e);
	return err;
}

const struct engine_ops engine_handler = {
	.name = "handler",
	.open = open_engine,
	.arm = arm,
	.disarm = disarm,
	.pump = pump,
	.why = why,
	.stop = stop,
	.counts = counts,
	.close = close_engine,
};
