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
#include "watchctl/base/map64.h"
#include "watchctl/engine/code_facts.h"
#include "watchctl/engine/dregs.h"
#include "watchctl/engine/engine.h"
#include "watchctl/engine/perf_bp.h"
#include "watchctl/engine/perf_guard.h"
#include "watchctl/engine/ptrace_bp.h"
#include "watchctl/engine/ring.h"
#include "watchctl/engine/tsc_clock.h"
#include "watchctl/target/inject.h"
#include "watchctl/target/proc.h"

#define PASS_NS 5000000ull	   /* how long the controller sleeps between looks at the ring */
#define PRIVATE_PASS_NS 1000000ull /* ... where the handler cannot wake it */
#define DRAIN_NS 20000000ull
#define CHECK_NS 50000000ull	   /* how often it looks whether the target is still what it was */
#define MODULES_NS 1000000000ull   /* how often it looks at the modules unasked */
#define MODULES_MIN_NS 20000000ull /* ... and at most how often when asked by an unknown address */
#define SETTLE_MS 30u
#define FLUSH_MS 100u
#define TRAP_PERF_CODE 6
#define TRAP_HWBKPT_CODE 4

struct armed_watch {
	bool armed;
	struct watchpoint w;
	struct perf_bp perf;
	struct ptrace_bp ptrace;
	uint64_t counted, self_tests, recorded, filtered;
	uint64_t seen; /* records taken out of the ring, whatever became of them */
	bool disabled;
};

struct engine {
	pid_t pid;
	struct engine_options options;
	struct event_sink sink;
	struct injection inj;
	struct ring ring;
	struct code_facts *facts;
	struct perf_guard *guard; /* NULL: not permitted */
	struct tsc_clock clock;
	uint64_t cookie;
	uint32_t control_flags;
	struct armed_watch watch[ENGINE_WATCHES];
	struct map64 thread_ids; /* id in the target's pid namespace -> struct thread_id, owned */
	int pidfd;
	int registers_before; /* in use in a thread of the target before we armed any */
	uint64_t checked_ns, modules_ns, modules_backoff_ns;
	bool holding;
	bool stopped, settled; /* disarmed; and no SIGTRAP of ours can come any more */
	bool gone, execed, ring_dead;
	bool told_blocked;
	char why[256];
};

struct thread_id {
	pid_t tid;
	char comm[17];
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
	e->sink = sink;
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
	tsc_clock_sample(&e->clock);
	e->registers_before = perf_bp_used(pid);
	err = inject_place(pid, &control, shared_size(o->buffer_size), o->private_ring, o->held, &e->inj);
	if (!err && !ring_init(&e->ring, &e->inj, control.ring_offset, control.ring_size, control.commit_key))
		err = &wc_enomem;
	if (!err) {
		e->facts = code_facts_new(pid, &e->inj, sink);
		err = e->facts ? code_facts_refresh(e->facts, monotonic_ns(), NULL) : &wc_enomem;
	}
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

static void free_thread_ids(struct map64 *m)
{
	size_t i;

	for (i = 0; i < m->cap; i++)
		if (m->slot[i].used)
			free(m->slot[i].value);
	map64_deinit(m);
}

/* The target may live in a pid namespace of its own: its thread ids are not ours. */
static pid_t global_tid(const struct engine *e, pid_t inner)
{
	struct proc_status s;
	struct thread_ids ids;
	pid_t found = inner;
	size_t i;

	if (proc_status_read(e->pid, inner, &s) && s.ns_id == inner)
		return inner;
	if (!proc_threads(e->pid, &ids))
		return inner;
	for (i = 0; i < ids.n; i++) {
		if (proc_status_read(e->pid, ids.v[i], &s) && s.ns_id == inner) {
			found = ids.v[i];
			break;
		}
	}
	thread_ids_deinit(&ids);
	return found;
}

static struct wc_error *know_thread(struct engine *e, pid_t inner, uint64_t now_ns, pid_t *ret)
{
	struct thread_id *t = map64_get(&e->thread_ids, (uint64_t)inner);
	struct trace_event event = { .type = EVENT_THREAD, .time_ns = now_ns };
	struct proc_status s;

	if (t) {
		*ret = t->tid;
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (!t || !map64_put(&e->thread_ids, (uint64_t)inner, t)) {
		free(t);
		return &wc_enomem;
	}
	t->tid = global_tid(e, inner);
	if (proc_status_read(e->pid, t->tid, &s))
		memcpy(t->comm, s.name, sizeof(t->comm));
	*ret = t->tid;
	event.thread.pid = e->pid;
	event.thread.tid = t->tid;
	event.thread.comm = t->comm;
	return e->sink.put(e->sink.ctx, &event);
}

struct raw_stack {
	const uint8_t *bytes;
	uint64_t addr, len;
};

static bool read_raw(void *ctx, uint64_t addr, void *buf, size_t len)
{
	const struct raw_stack *raw = ctx;

	if (addr < raw->addr || addr - raw->addr > raw->len || len > raw->len - (addr - raw->addr))
		return false;
	memcpy(buf, raw->bytes + (addr - raw->addr), len);
	return true;
}

static struct wc_error *refresh_modules(struct engine *e, uint64_t now, bool *changed)
{
	e->modules_ns = now;
	return code_facts_refresh(e->facts, now, changed);
}

/* An address in no module we know: look again, unless we just did and found nothing new (a JIT's code). */
static struct wc_error *look_for_module(struct engine *e, bool *ret_looked)
{
	uint64_t now = monotonic_ns();
	bool changed = false;
	struct wc_error *err;

	*ret_looked = now - e->modules_ns >= e->modules_backoff_ns;
	if (!*ret_looked)
		return NULL;
	err = refresh_modules(e, now, &changed);
	e->modules_backoff_ns = changed ? 0 : MODULES_MIN_NS;
	return err;
}

/* The handler met code it has no rule for: we walk on from there, and the rules go back to it. */
static struct wc_error *complete_stack(struct engine *e, const struct wire_record *r, uint64_t *frame,
				       struct access_event *a)
{
	const uint64_t *frames = (const uint64_t *)(r + 1);
	const struct regs *outer = (const struct regs *)(frames + r->nframes);
	struct raw_stack raw = { (const uint8_t *)(outer + 1), r->raw_addr, r->raw_len };
	struct memory_view mem = { read_raw, &raw };
	enum walk_end why = (enum walk_end)r->walk_end;
	unsigned int cap = e->options.frames < WIRE_FRAMES ? e->options.frames : WIRE_FRAMES;
	bool exact = r->flags & WIRE_EXACT_PC, looked;
	unsigned int n = r->nframes;
	struct wc_error *err;

	memcpy(frame, frames, 8 * r->nframes);
	if (why == WALK_END_UNKNOWN_PC) {
		why = code_facts_walk(e->facts, *outer, exact, &mem, false, frame, &n, cap);
		if (why == WALK_END_NO_RULE && !code_facts_covers(e->facts, frame[n - 1])) {
			err = look_for_module(e, &looked);
			if (err)
				return err;
			n = r->nframes;
			why = code_facts_walk(e->facts, *outer, exact, &mem, looked, frame, &n, cap);
		}
	}
	a->nframes = n;
	a->walk_end = (uint8_t)why;
	a->frame = frame;
	return NULL;
}

static struct wc_error *know_code(struct engine *e, const struct access_event *a, uint64_t now,
				  struct access_query *q)
{
	struct wc_error *err = code_facts_at(e->facts, a->frame[0], now, &q->pc);

	if (!err && a->nframes > 1)
		err = code_facts_at(e->facts, a->frame[1], now, &q->caller);
	return err;
}

/* Only for a watch of reads alone: everything else is recorded, whatever it is. */
static bool is_unwanted_write(const struct armed_watch *w, const struct access_event *a,
			      struct access_query *q)
{
	struct access_verdict verdict;

	if (w->w.access != ACCESS_READ)
		return false;
	q->regs = &a->regs;
	q->addr = a->addr;
	q->size = a->size;
	q->has_new = a->has_new;
	q->new_value = a->new_value;
	access_resolve(q, &verdict);
	return verdict.kind == ACCESS_WRITE;
}

static uint64_t record_time(struct engine *e, const struct wire_record *r)
{
	uint64_t t;

	if (!(r->flags & WIRE_TIME_NS) && r->time > e->clock.tsc)
		tsc_clock_sample(&e->clock);
	t = r->flags & WIRE_TIME_NS ? r->time : tsc_clock_ns(&e->clock, r->time);
	/* The target's word: a time from the future, or from long ago, is not believed. */
	if (t > e->clock.ns)
		t = monotonic_ns() < t ? e->clock.ns : t;
	return t < e->clock.ns0 ? e->clock.ns0 : t;
}

/* Once is enough: such a thread delivers all its hits so. */
static struct wc_error *tell_blocked(struct engine *e, uint64_t time_ns, pid_t tid)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = time_ns };
	char text[200];

	if (e->told_blocked)
		return NULL;
	e->told_blocked = true;
	snprintf(text, sizeof(text),
		 "thread %d blocks SIGTRAP: its hits are merged while it does, and come late, with registers "
		 "and stack of "
		 "that later moment",
		 tid);
	event.note.text = text;
	return e->sink.put(e->sink.ctx, &event);
}

static struct wc_error *deliver(struct engine *e, const struct wire_record *r)
{
	struct armed_watch *w = &e->watch[r->watch];
	struct trace_event event = { .type = EVENT_ACCESS };
	struct access_event *a = &event.access;
	struct access_query q = { 0 };
	uint64_t frame[WIRE_FRAMES];
	struct wc_error *err;

	w->seen++;
	if (!w->w.size || (r->flags & WIRE_SELF_TEST))
		return NULL;
	if (w->w.hook) {
		e->holding = true;
		return NULL;
	}
	event.time_ns = record_time(e, r);
	err = complete_stack(e, r, frame, a);
	if (!err)
		err = know_thread(e, (pid_t)r->tid, event.time_ns, &a->tid);
	if (!err && !(r->flags & WIRE_ASYNC))
		err = know_code(e, a, event.time_ns, &q);
	if (err)
		return err;
	a->watch = w->w.id;
	a->pid = e->pid;
	a->addr = w->w.addr;
	a->size = w->w.size;
	a->has_old = r->flags & WIRE_HAS_OLD;
	a->has_new = r->flags & WIRE_HAS_NEW;
	a->old_value = r->old_value;
	a->new_value = r->new_value;
	a->regs = r->regs;
	a->displaced = r->flags & WIRE_ASYNC;
	if (!a->displaced && is_unwanted_write(w, a, &q)) {
		w->filtered++;
		return NULL;
	}
	w->recorded++;
	err = a->displaced ? tell_blocked(e, event.time_ns, a->tid) : NULL;
	return err ? err : e->sink.put(e->sink.ctx, &event);
}

/*
 * Delivers what is in the ring, for a limited time: the target may fill it as fast as we empty it.
 * *ret: whether there was anything.
 */
static struct wc_error *drain(struct engine *e, bool *ret)
{
	const struct wire_record *r;
	struct wc_error *err = NULL;
	unsigned int n = 0;
	uint64_t end;

	*ret = false;
	if (e->ring_dead)
		return NULL;
	tsc_clock_sample(&e->clock);
	end = e->clock.ns + DRAIN_NS;
	while (!err && !e->holding && e->clock.ns < end) {
		enum ring_result result = ring_next(&e->ring, &r);

		if (result == RING_CORRUPT) {
			e->ring_dead = true;
			snprintf(e->why, sizeof(e->why),
				 "the program wrote into the event buffer: it cannot be read any "
				 "further");
			break;
		}
		if (result != RING_RECORD)
			break;
		*ret = true;
		err = deliver(e, r);
		if (++n % 32 == 0) {
			ring_release(&e->ring);
			tsc_clock_sample(&e->clock);
		}
	}
	ring_release(&e->ring);
	return err;
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

	if (!e->holding)
		return;
	e->holding = false;
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
	if (!err && now - e->modules_ns >= MODULES_NS)
		err = refresh_modules(e, now, NULL);
	return err;
}

/* Once no more hits can come: the ring to its end. */
static struct wc_error *drain_all(struct engine *e)
{
	struct wc_error *err;
	bool any;

	do {
		beat(e);
		err = drain(e, &any);
		let_go(e);
	} while (!err && any);
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
		err = drain(e, &any);
		if (!err)
			err = check_target(e, monotonic_ns());
		if (err)
			return err;
		now = monotonic_ns();
		if (e->holding) {
			*ret = PUMP_HOOK;
			return NULL;
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
		known = a->seen + shared.filtered + shared.lost;
		sum += a->counted > known ? a->counted - known : 0;
	}
	known = perf_guard_suppressed(e->guard);
	return sum > known ? sum - known : 0;
}

static struct wc_error *settle(struct engine *e, unsigned int timeout_ms)
{
	struct wc_error *err = drain_all(e);
	uint64_t end = monotonic_ns() + timeout_ms * 1000000ull;

	while (!err && !e->ring_dead && outstanding(e) && !target_ended(e) && monotonic_ns() < end) {
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
		err = drain_all(e);
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
	if (err || e->gone || e->why[0] || target_ended(e) || (!outstanding(e) && !has_ptrace_watch(e)))
		return err;
	e->settled = flush_threads(e);
	err = settle(e, FLUSH_MS);
	for (i = 0; i < FLUSH_MS && !err && any_pending(e); i++) {
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		err = drain_all(e);
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
		c.recorded = a->recorded;
		c.filtered = a->filtered + shared.filtered;
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
		err = stop(e);
	if (err)
		return err;
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
	ring_deinit(&e->ring);
	code_facts_free(e->facts);
	injection_deinit(&e->inj);
	free_thread_ids(&e->thread_ids);
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
