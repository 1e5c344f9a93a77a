/*
 * engine_handler - the default engine: the CPU traps, a handler inside the program records, this side
 * reads along. See handler/wire.h for the memory between the two and docs/architecture.md for the whole.
 *
 * Order is safety: install the handler, then arm; disarm, drain, and only then uninstall.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/time/tsc_usable.h"
#include "watchctl/engine/handler/handler_engine.h"
#include "watchctl/engine/plan/watchpoint.h"
#include "watchctl/target/proc/end_signal.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/stop/dispatch.h"

#define PASS_NS 5000000ull	   /* how long the controller sleeps between looks at the ring */
#define PRIVATE_PASS_NS 1000000ull /* ... where the handler cannot wake it */
#define CHECK_NS 50000000ull	   /* how often it looks whether the target is still what it was */
#define MODULES_NS 1000000000ull
static void lay_out(struct wire_control *c, const struct engine_options *o)
{
	c->facts_offset = WIRE_FACTS_OFFSET;
	c->rules_offset = WIRE_RULES_OFFSET;
	c->ring_offset = WIRE_RING_OFFSET;
	c->ring_size = o->buffer_size;
	c->max_frames = o->frames;
	c->raw_size = (uint32_t)(o->buffer_size / 8 < WIRE_RAW_MAX ? o->buffer_size / 8 : WIRE_RAW_MAX);
	c->wake = 1;
	c->patience_ns = o->held && o->held->tid ? HOLD_START_NS : HOLD_NS;
	if (o->follow_fork)
		c->flags |= WIRE_CHILDREN;
	if (tsc_usable())
		c->flags |= WIRE_USE_TSC;
}

static struct wc_error *close_engine(struct engine *e);

static bool read_area(void *ctx, uint64_t offset, void *buf, size_t len)
{
	const struct engine *e = ctx;

	return injection_read(&e->inj, offset, buf, len);
}

static bool write_area(void *ctx, uint64_t offset, const void *buf, size_t len)
{
	handler_write(ctx, offset, buf, len);
	return true;
}

static void open_guard(struct engine *e, const struct wire_control *control)
{
	struct kernel_recorder_spec spec = {
		.control = *control,
		.buffer_size = e->options.buffer_size,
		.handler = e->inj.handler,
		.their_control = e->inj.control,
		.depth = -1,
	};
	const char *missing;

	e->guard = kernel_recorder_open(&spec, &missing);
	if (e->guard)
		e->kernel = kernel_access_new(kernel_recorder_memory(e->guard));
	if (e->options.say)
		e->options.say(e->options.say_ctx, "guard against a replaced SIGTRAP handler: %s",
			       e->guard ? "in place" : missing);
}

static void report_placed(const struct engine *e)
{
	if (!e->options.say || !e->inj.stop_ns)
		return;
	e->options.say(e->options.say_ctx,
		       "handler placed: thread %d was stopped for %llu us; the event buffer is %s",
		       e->inj.stop_tid, (unsigned long long)e->inj.stop_ns / 1000,
		       e->inj.shared
			       ? "shared memory"
			       : "read through the kernel (sharing it needs CAP_CHECKPOINT_RESTORE, or the "
				 "same user and IPC namespace)");
}

static struct wc_error *keep_spare_memory(struct engine *e)
{
	if (spare_memory_keep(&e->spare_memory))
		return NULL;
	return wc_error_new(
		WC_EFAIL,
		"too little memory is left to place the handler and to guarantee its removal: raise the "
		"limit (ulimit -v)");
}

static struct wc_error *keep_spare_files(struct engine *e)
{
	if (spare_files_keep(&e->spare))
		return NULL;
	return wc_error_new(
		WC_EFAIL,
		"too few file descriptors are left to place the handler and to guarantee its removal: "
		"raise the limit (ulimit -n)");
}

static struct wc_error *open_engine(pid_t pid, const struct engine_options *o, struct event_sink sink,
				    struct engine **ret)
{
	struct wire_control control = { 0 };
	struct wc_error *err = proc_check(pid);
	struct engine *e;

	if (!err)
		err = handler_refuse_unsafe(pid);
	if (err)
		return err;
	e = calloc(1, sizeof(*e));
	if (!e)
		return &wc_enomem;
	e->pid = pid;
	e->claim = -1;
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
	if (o->follow_fork)
		family_watch_open(&e->family, pid);
	e->registers_before = perf_bp_used(pid);
	e->caught_sigsys = dispatch_is_possible(pid);
	e->stack_start = control.first_stack_top = proc_stack_start(pid);
	err = keep_spare_memory(e);
	if (!err)
		err = keep_spare_files(e);
	spare_files_release(&e->spare); /* they are there: for this, and for the way back */
	if (!err)
		err = inject_place(pid, &control, WIRE_RING_OFFSET + o->buffer_size, o->private_ring, o->held,
				   &e->inj);
	if (!err) {
		handler_note_placed(e);
		err = keep_spare_files(e);
	}
	if (!err && o->follow_fork && !e->inj.shared)
		err = wc_error_new(
			WC_EPERM,
			"--fork follow needs an event buffer that is shared with the children, which is not "
			"permitted here (it needs the same user and IPC namespace, or CAP_CHECKPOINT_RESTORE, and no "
			"--private-buffer); choose --engine ring");
	if (!err) {
		open_guard(e, &control);
		err = handler_refuse_taker(e);
	}
	if (!err) {
		e->area = (struct wire_area){ read_area, write_area, e, e->inj.shared };
		err = intake_init(&e->intake, pid, o, sink, &e->area, &control);
		e->intake.kernel = e->kernel;
		e->intake.who.alone = !o->follow_fork;
		e->intake.who.is_child = handler_is_child;
		e->intake.who.find_below = handler_find_below;
		e->intake.who.ctx = e;
	}
	if (err) {
		wc_error_free(close_engine(e));
		return err;
	}
	report_placed(e);
	*ret = e;
	return NULL;
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

/* The handler is gone in part or whole; but SIGTRAP's action, which exec resets, is not, nor is the stack. */
static bool is_unmapped(const struct engine *e)
{
	struct proc_status s;

	return e->stack_start && !inject_is_mapped(&e->inj) && proc_stack_start(e->pid) == e->stack_start &&
	       proc_status_read(e->pid, e->pid, &s) && (s.caught & PROC_SIGTRAP);
}

/* Debuggers take the debug registers for theirs: gdb clears them all when it attaches. */
static struct wc_error *report_tracer(struct engine *e)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = monotonic_ns() };
	struct proc_status s;
	char who[96], text[256];

	if (e->reported_tracer || !handler_has_ptrace_watch(e) || !proc_status_read(e->pid, e->pid, &s) ||
	    !s.tracer)
		return NULL;
	e->reported_tracer = true;
	proc_describe(s.tracer, who, sizeof(who));
	snprintf(
		text, sizeof(text),
		"%s traces the program now, and may clear the register chosen with -i: accesses that are not seen "
		"after that cannot be counted",
		who);
	event.note.text = text;
	return e->intake.sink.put(e->intake.sink.ctx, &event);
}

static bool note_exec(struct engine *e)
{
	if (!handler_target_execed(e))
		return false;
	e->execed = !handler_target_ended(e);
	e->gone = true;
	return true;
}

static struct wc_error *check_target(struct engine *e, uint64_t now, bool idle)
{
	bool ended = handler_target_ended(e);
	struct wc_error *err = NULL;
	unsigned int i;

	if (now - e->checked_ns < CHECK_NS && !ended)
		return NULL;
	e->checked_ns = now;
	if (ended) {
		e->gone = handler_all_ended(e);
		if (!e->end_signal)
			e->end_signal = end_signal(e->pid, e->pidfd);
		return NULL;
	}
	e->unmapped = e->unmapped || is_unmapped(e);
	if (e->unmapped && !e->why[0])
		snprintf(e->why, sizeof(e->why),
			 "process %d has unmapped the handler, or written over what belongs to it (choose "
			 "--engine ring, which puts nothing into it)",
			 e->pid);
	if (note_exec(e))
		return NULL;
	handler_check_safety(e);
	err = handler_check_missing(e, now, idle);
	if (e->why[0] && !e->unmapped && handler_memory_state(e) == MEMORY_GONE) {
		e->why[0] = '\0'; /* that is why: exec resets signals, too */
		note_exec(e);
		return NULL;
	}
	for (i = 0; i < WIRE_WATCHES && !err; i++)
		if (e->watch[i].armed && !e->watch[i].disabled && e->watch[i].w.slot >= 0)
			err = ptrace_bp_extend(&e->watch[i].ptrace);
	if (err && (proc_has_execed(e->pid, e->stack_start) || handler_target_ended(e))) {
		wc_error_free(err);
		note_exec(e);
		return NULL;
	}
	if (!err)
		err = report_tracer(e);
	if (!err && !unheld_is_reported(&e->unheld))
		err = handler_report_unheld(e);
	if (!err)
		err = handler_report_roomless(e, false);
	if (!err)
		err = handler_report_causeless(e, false);
	if (!err)
		err = intake_refresh_modules(&e->intake, now, MODULES_NS);
	return err;
}

static struct wc_error *pump(struct engine *e, int timeout_ms, enum pump_result *ret)
{
	uint64_t now = monotonic_ns(), end = now + (uint64_t)timeout_ms * 1000000u;
	struct wc_error *err;
	bool any;

	handler_let_go(e);
	for (;;) {
		handler_beat(e);
		err = handler_take(e, &any);
		if (!err)
			err = check_target(e, monotonic_ns(), !any);
		if (err)
			return err;
		now = monotonic_ns();
		if (e->intake.hook_hit) {
			*ret = PUMP_HOOK;
			return intake_refresh_modules(&e->intake, now, 0);
		}
		if (e->gone || e->why[0]) {
			err = handler_drain_all(e); /* what was recorded between the last look and the end */
			*ret = e->execed || (e->gone && e->intake.execed) ? PUMP_EXECED
			       : e->gone				  ? PUMP_EXITED
									  : PUMP_ENDED;
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

static void hooked(const struct engine *e, struct engine_hook *ret)
{
	*ret = e->intake.hook;
}

static void engine_handler_counts(const struct engine *e, uint32_t id, struct engine_counts *ret)
{
	struct engine_counts sum = past_counts_of(&e->past, id), one;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++) {
		if (!e->watch[i].armed || e->watch[i].w.id != id || e->watch[i].w.hook)
			continue;
		handler_counts_of(e, i, &one);
		counts_add(&sum, &one);
	}
	sum.replaced = e->replaced || kernel_recorder_suppressed(e->guard);
	sum.ended = e->gone && !e->inj.shared;
	sum.corrupt = e->intake.corrupt;
	*ret = sum;
}

static struct wc_error *engine_handler_finish(struct engine *e, uint32_t id, struct engine_counts *ret)
{
	struct wc_error *err = intake_hand_out(&e->intake);
	unsigned int i;

	engine_handler_counts(e, id, ret);
	past_counts_drop(&e->past, id);
	for (i = 0; i < WIRE_WATCHES; i++) {
		if (!e->watch[i].armed || e->watch[i].w.id != id)
			continue;
		e->watch[i].finished = true;
		intake_forget(&e->intake, i);
	}
	return err;
}

/* Without the guard: by a hit that was counted, and whose signal did not come to our handler. */
static struct wc_error *ended_by_us(const struct engine *e)
{
	bool is_ours = e->end_signal == SIGTRAP || e->end_signal == SIGSYS;

	if (e->guard || !handler_outstanding(e))
		return NULL;
	if (e->end_signal == SIGSEGV)
		return wc_error_new(
			WC_ENOTSUP,
			"process %d was ended by SIGSEGV just when a hit was not recorded: most "
			"likely by that hit, for whose signal its stack had no room (a "
			"coroutine's, or a small alternate stack). Without CAP_BPF and CAP_PERFMON "
			"nothing keeps our signal from it then: choose --engine ring",
			e->pid);
	if (!is_ours)
		return NULL;
	return wc_error_new(
		WC_ENOTSUP,
		"process %d was ended by %s just when a hit was not recorded: most likely by that hit. It "
		"had "
		"%s, and without CAP_BPF and CAP_PERFMON nothing keeps our signal from it then: choose "
		"--engine ring",
		e->pid, e->end_signal == SIGTRAP ? "SIGTRAP" : "SIGSYS",
		e->end_signal == SIGTRAP ? "taken our SIGTRAP handler away"
					 : "forbidden itself system calls");
}

static struct wc_error *close_engine(struct engine *e)
{
	struct wc_error *err;
	unsigned int i;

	if (!e)
		return NULL;
	heartbeat_stop(&e->heartbeat);
	for (i = 0; i < WIRE_WATCHES; i++)
		handler_disable(&e->watch[i]);
	err = wc_error_first(ended_by_us(e), handler_withdraw(e));
	intake_deinit(&e->intake);
	kernel_access_free(e->kernel);
	kernel_recorder_close(e->guard);
	past_counts_deinit(&e->past);
	family_watch_close(&e->family);
	thread_ids_deinit(&e->children);
	injection_deinit(&e->inj);
	spare_files_release(&e->spare);
	spare_memory_release(&e->spare_memory);
	closep(&e->claim);
	closep(&e->pidfd);
	free(e);
	return err;
}

const struct engine_ops engine_handler = {
	.name = "handler",
	.follows_fork = true,
	.open = open_engine,
	.arm = handler_arm,
	.disarm = handler_disarm,
	.extend = handler_extend,
	.begun = handler_begun,
	.hooked = hooked,
	.pump = pump,
	.why = why,
	.outstanding = handler_outstanding_of,
	.flush = handler_flush,
	.finish = engine_handler_finish,
	.stop = handler_stop,
	.counts = engine_handler_counts,
	.close = close_engine,
};
