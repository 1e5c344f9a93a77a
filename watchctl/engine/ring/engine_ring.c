/*
 * engine_ring - nothing is put into the program: the kernel records. Where BPF is permitted, by the program
 * in record.bpf.c, with values, exact stacks and filters; else by its own samples, see ring_samples.h.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/plan/watchpoint.h"
#include "watchctl/engine/ring/ring_engine.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/process_fd.h"

#define PASS_NS 5000000ull	 /* how long the controller sleeps between looks at the ring */
#define CHECK_NS 50000000ull	 /* how often it looks whether the target is still what it was */
#define MODULES_NS 1000000000ull /* how often it looks at the modules unasked */
#define SAMPLE_NS 1000000ull	 /* a sample is in its ring, for certain, so long after the hit */
#define STACK_FRAME 128u	 /* bytes of stack that a sample holds for each frame asked for */
#define STACK_MIN 2048u

static void lay_out(struct wire_control *c, pid_t pid, const struct engine_options *o)
{
	struct proc_status s;

	c->facts_offset = WIRE_FACTS_OFFSET;
	c->rules_offset = WIRE_RULES_OFFSET;
	c->max_frames = o->frames;
	c->raw_size = (uint32_t)(o->buffer_size / 8 < WIRE_RAW_MAX ? o->buffer_size / 8 : WIRE_RAW_MAX);
	c->wake = 1;
	c->target_pid = proc_status_read(pid, pid, &s) && s.ns_id ? s.ns_id : pid;
	if (o->follow_fork)
		c->flags |= WIRE_CHILDREN;
}

static struct wc_error *close_engine(struct engine *e);

/* Which of the two records, and why. */
static struct wc_error *report_samples(struct event_sink sink, const char *missing)
{
	struct trace_event event = { .type = EVENT_NOTE, .time_ns = monotonic_ns() };
	char text[400];

	snprintf(
		text, sizeof(text),
		"the kernel samples the hits, because a BPF program cannot record them: %s. Values are known only if "
		"the instruction itself determines them, and filters are evaluated afterwards",
		missing);
	event.note.text = text;
	return sink.put(sink.ctx, &event);
}

static struct wc_error *open_samples(struct engine *e, struct event_sink sink, const char *missing)
{
	uint32_t stack = STACK_FRAME * e->options.frames;
	struct wc_error *err;

	stack = stack < STACK_MIN ? STACK_MIN : stack > WIRE_RAW_MAX ? WIRE_RAW_MAX : stack;
	err = perf_rings_open(e->pid, e->options.buffer_size, stack, &e->rings);
	if (err)
		return err;
	e->samples = ring_samples_new(e->rings, &e->intake);
	if (!e->samples)
		return &wc_enomem;
	e->intake.samples = true;
	err = intake_init(&e->intake, e->pid, &e->options, sink, ring_samples_area(e->samples), NULL);
	return err ? err : report_samples(sink, missing);
}

static struct wc_error *open_recording(struct engine *e, struct event_sink sink)
{
	struct kernel_recorder_spec spec = { .buffer_size = e->options.buffer_size };
	struct proc_status s;
	const char *missing;
	struct wc_error *err;

	lay_out(&spec.control, e->pid, &e->options);
	spec.depth = proc_status_read(e->pid, e->pid, &s) ? (int32_t)s.depth : -1;
	e->recorder = kernel_recorder_open(&spec, &missing);
	if (!e->recorder && e->options.values)
		return wc_error_new(WC_ENOTSUP, "the BPF program that records hits cannot be used: %s",
				    missing);
	if (!e->recorder)
		return open_samples(e, sink, missing);
	if (e->options.say)
		e->options.say(e->options.say_ctx, "a BPF program in the kernel records the hits");
	err = intake_init(&e->intake, e->pid, &e->options, sink, kernel_recorder_area(e->recorder), NULL);
	if (err)
		return err;
	e->intake.kernel = e->kernel = kernel_access_new(kernel_recorder_memory(e->recorder));
	return e->kernel ? NULL : &wc_enomem;
}

static struct wc_error *report_unknown_ends(struct event_sink sink)
{
	struct trace_event event = {
		.type = EVENT_NOTE,
		.time_ns = monotonic_ns(),
		.note.text =
			"the kernel grants no events that report when the children have ended: the watch ends "
			"with the process itself",
	};

	return sink.put(sink.ctx, &event);
}

static struct wc_error *open_parts(struct engine *e, struct event_sink sink)
{
	struct wc_error *err = NULL;

	e->pidfd = (int)syscall(SYS_pidfd_open, e->pid, 0);
	if (e->pidfd < 0)
		return wc_error_errno(WC_ETARGET, errno, "cannot follow process %d", e->pid);
	e->registers_before = perf_bp_used(e->pid);
	exec_watch_open(&e->exec, e->pid);
	if (e->options.follow_fork && !family_watch_open(&e->family, e->pid))
		err = report_unknown_ends(sink);
	return err ? err : open_recording(e, sink);
}

static struct wc_error *open_engine(pid_t pid, const struct engine_options *o, struct event_sink sink,
				    struct engine **ret)
{
	struct wc_error *err = proc_check(pid);
	struct engine *e;

	if (err)
		return err;
	e = calloc(1, sizeof(*e));
	if (!e)
		return &wc_enomem;
	e->pid = pid;
	e->options = *o;
	e->pidfd = e->exec.fd = -1;
	err = open_parts(e, sink);
	if (err) {
		wc_error_free(close_engine(e));
		return err;
	}
	*ret = e;
	return NULL;
}

/* One look at what is there. @all: no more hits can come. */
static struct wc_error *engine_ring_take(struct engine *e, bool all, bool *any)
{
	bool taken = false;
	struct wc_error *err;

	*any = false;
	intake_take_late_hook(&e->intake);
	if (e->recorder)
		err = kernel_recorder_take(e->recorder, &e->intake, UINT64_MAX, &taken);
	else
		err = ring_samples_take(e->samples, all ? UINT64_MAX : monotonic_ns() - SAMPLE_NS, &taken);
	if (!err)
		err = intake_pass(&e->intake, any);
	*any |= taken;
	return err;
}

struct wc_error *ring_drain(struct engine *e)
{
	bool was_hit = e->intake.hook_hit, any;
	struct wc_error *err;

	e->intake.hook_hit = false; /* it would take nothing */
	e->intake.hooks_wait = true;
	do {
		err = engine_ring_take(e, false, &any);
	} while (!err && any);
	e->intake.hooks_wait = false;
	e->intake.hook_hit = was_hit;
	return err;
}

static struct wc_error *check_target(struct engine *e, uint64_t now)
{
	if (now - e->checked_ns < CHECK_NS)
		return NULL;
	e->checked_ns = now;
	return intake_refresh_modules(&e->intake, now, MODULES_NS);
}

/* Once no more hits can come: all there is, whatever the sink says to it. */
static struct wc_error *drain_all(struct engine *e)
{
	struct wc_error *first = NULL;
	bool any;

	do {
		e->intake.hook_hit = false;
		first = wc_error_first(first, engine_ring_take(e, true, &any));
	} while (any);
	return first;
}

static void wait_for_hits(struct engine *e, uint64_t ns)
{
	int fd = e->ended ? -1 : e->pidfd;

	if (e->recorder)
		kernel_recorder_wait(e->recorder, fd, ns);
	else
		perf_rings_wait(e->rings, fd, ns);
}

static struct wc_error *pump(struct engine *e, int timeout_ms, enum pump_result *ret)
{
	uint64_t now = monotonic_ns(), end = now + (uint64_t)timeout_ms * 1000000u;
	bool any, gone, execed;
	struct wc_error *err;

	e->intake.hook_hit = false;
	for (;;) {
		e->ended = e->ended || process_fd_ended(e->pidfd, 0);
		gone = e->ended && family_watch_ended(&e->family);
		execed = !e->ended && exec_watch_execed(&e->exec);
		err = engine_ring_take(e, false, &any);
		now = monotonic_ns();
		if (!err)
			err = check_target(e, now);
		if (err)
			return err;
		if (e->intake.hook_hit && !e->ended && !process_fd_ended(e->pidfd, 0)) {
			*ret = PUMP_HOOK;
			return intake_refresh_modules(&e->intake, now, 0);
		}
		if (gone || execed) {
			err = drain_all(e); /* what was recorded between the last look and the end */
			*ret = gone && !e->intake.execed ? PUMP_EXITED : PUMP_EXECED;
			return err;
		}
		if (now >= end)
			break;
		if (!any)
			wait_for_hits(e, end - now < PASS_NS ? end - now : PASS_NS);
	}
	*ret = PUMP_IDLE;
	return NULL;
}

static const char *why(const struct engine *e)
{
	(void)e;
	return "";
}

static void hooked(const struct engine *e, struct engine_hook *ret)
{
	*ret = e->intake.hook;
}

void ring_counts_of(const struct engine *e, unsigned int i, struct engine_counts *ret)
{
	const struct ring_watch *w = &e->watch[i];
	struct engine_counts c = { .has_counted = true };
	uint64_t known, own = e->recorder ? kernel_recorder_own(e->recorder, i) : 0;

	if (e->recorder)
		kernel_recorder_counts(e->recorder, i, &c.filtered, &c.lost_full);
	c.recorded = e->intake.watch[i].recorded;
	c.filtered += e->intake.watch[i].filtered;
	c.counted = w->disabled ? w->counted : perf_bp_count(&w->perf);
	c.counted -= e->intake.watch[i].steps + own;
	known = c.recorded + c.filtered + c.lost_full;
	if (c.counted > known && e->recorder)
		c.lost_merged = c.counted - known;
	else if (c.counted > known && w->disabled)
		c.lost_full = c.counted - known;
	*ret = c;
}

static void engine_ring_counts(const struct engine *e, uint32_t id, struct engine_counts *ret)
{
	struct engine_counts sum = past_counts_of(&e->past, id), one;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++) {
		if (!e->watch[i].armed || e->watch[i].w.id != id || e->watch[i].w.hook)
			continue;
		ring_counts_of(e, i, &one);
		counts_add(&sum, &one);
	}
	*ret = sum;
}

static uint64_t outstanding(const struct engine *e, uint32_t id)
{
	struct engine_counts c;
	uint64_t sum = 0, known;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++) {
		if (!e->watch[i].armed || e->watch[i].w.id != id)
			continue;
		ring_counts_of(e, i, &c);
		known = c.recorded + c.filtered + (e->recorder ? c.lost_full : 0);
		sum += c.counted > known ? c.counted - known : 0;
	}
	return sum;
}

static struct wc_error *engine_ring_finish(struct engine *e, uint32_t id, struct engine_counts *ret)
{
	struct wc_error *err = intake_hand_out(&e->intake);
	unsigned int i;

	engine_ring_counts(e, id, ret);
	past_counts_drop(&e->past, id);
	for (i = 0; i < WIRE_WATCHES; i++) {
		if (!e->watch[i].armed || e->watch[i].w.id != id)
			continue;
		e->watch[i].finished = true;
		intake_forget(&e->intake, i);
	}
	return err;
}

/* Disabling an event waits until no CPU is in it: whatever was hit has been recorded then. */
static struct wc_error *stop(struct engine *e)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++)
		ring_disable(&e->watch[i]);
	return wc_error_first(drain_all(e), intake_report_departures(&e->intake, 0));
}

static struct wc_error *close_engine(struct engine *e)
{
	unsigned int i;

	if (!e)
		return NULL;
	for (i = 0; i < WIRE_WATCHES; i++)
		ring_disable(&e->watch[i]);
	exec_watch_close(&e->exec);
	family_watch_close(&e->family);
	kernel_recorder_close(e->recorder);
	ring_samples_free(e->samples);
	perf_rings_close(e->rings);
	past_counts_deinit(&e->past);
	intake_deinit(&e->intake);
	kernel_access_free(e->kernel);
	closep(&e->pidfd);
	free(e);
	return NULL;
}

const struct engine_ops engine_ring = {
	.name = "ring",
	.follows_fork = true,
	.hooks_late = true,
	.open = open_engine,
	.arm = ring_arm,
	.disarm = ring_disarm,
	.extend = ring_extend,
	.hooked = hooked,
	.pump = pump,
	.why = why,
	.outstanding = outstanding,
	.finish = engine_ring_finish,
	.stop = stop,
	.counts = engine_ring_counts,
	.close = close_engine,
};
