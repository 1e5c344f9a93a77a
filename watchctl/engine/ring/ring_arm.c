#include <stddef.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/plan/watchpoint.h"
#include "watchctl/engine/ring/ring_engine.h"
#include "watchctl/target/proc/proc.h"

static uint64_t watch_offset(unsigned int i)
{
	return offsetof(struct wire_control, watch) + i * sizeof(struct wire_watch);
}

/* Registers that we hold now. */
static unsigned int armed_count(const struct engine *e)
{
	unsigned int i, n = 0;

	for (i = 0; i < WIRE_WATCHES; i++)
		n += e->watch[i].armed && !e->watch[i].disabled;
	return n;
}

static struct wc_error *ring_arm_refuse(const struct engine *e, const struct watchpoint *w)
{
	if (armed_count(e) == ENGINE_WATCHES)
		return wc_error_new(
			WC_ESLOTS,
			"no debug register is left: a CPU has %u, and this command uses all of them",
			ENGINE_WATCHES);
	if (w->slot >= 0)
		return wc_error_new(
			WC_ENOTSUP,
			"the ring engine cannot choose a debug register (-i), because the kernel does: "
			"omit -i, or choose --engine handler or ptrace");
	return watchpoint_check(w, e->pid);
}

/*
 * A place for one more watch: one that was never used, else the one whose watch was disarmed first. What that
 * one recorded is taken out before its place is given away.
 */
static struct wc_error *find_place(struct engine *e, int *ret)
{
	struct engine_counts c;
	struct wc_error *err;
	int best = -1;

	for (int i = 0; i < (int)WIRE_WATCHES; i++) {
		const struct ring_watch *w = &e->watch[i];

		if (!w->armed) {
			*ret = i;
			return NULL;
		}
		if (w->disabled && (best < 0 || w->disabled_ns < e->watch[best].disabled_ns))
			best = i;
	}
	if (best < 0)
		return wc_error_new(WC_EFAIL, "no place is left for one more watch");
	err = ring_drain(e);
	if (err)
		return err;
	if (!e->watch[best].w.hook && !e->watch[best].finished) {
		ring_counts_of(e, (unsigned int)best, &c);
		if (!past_counts_add(&e->past, e->watch[best].w.id, &c))
			return &wc_enomem;
	}
	e->watch[best].armed = false;
	*ret = best;
	return NULL;
}

/* Reports the recorder what it will be called for. */
static void ring_arm_publish(struct engine *e, unsigned int i, uint64_t value)
{
	const struct watchpoint *w = &e->watch[i].w;
	struct wire_watch wire = watchpoint_wire(w, value);
	const struct wire_area *area;

	if (!e->recorder)
		return;
	area = kernel_recorder_area(e->recorder);
	if (w->filter)
		area->write(area->ctx, WIRE_FILTERS_OFFSET + i * sizeof(*w->filter), w->filter,
			    sizeof(*w->filter));
	kernel_recorder_forget(e->recorder, i);
	area->write(area->ctx, watch_offset(i), &wire, sizeof(wire));
}

/* The copy of a thread, and the value that it has before its first access. */
static bool thread_address(void *ctx, uint64_t thread_pointer, uint64_t *ret)
{
	const struct ring_watch *w = ctx;
	const struct engine *e = w->engine;
	struct wire_shadow *table;

	if (!w->w.address(w->w.address_ctx, thread_pointer, ret))
		return false;
	if (e->recorder) {
		table = (void *)((char *)kernel_recorder_area(e->recorder)->mapped + WIRE_SHADOWS_OFFSET);
		table += (size_t)(w - e->watch) * WIRE_SHADOWS;
		watchpoint_remember(&w->w, e->pid, *ret, table);
	}
	return true;
}

/*
 * What the kernel reads in order to record a hit must not count as a read itself: where that cannot be
 * helped, a watch of reads does not see the kernel.
 */
static bool user_only(const struct engine *e, const struct watchpoint *w)
{
	return w->access != ACCESS_WRITE && !(e->recorder && kernel_recorder_reads_silently(e->recorder));
}

static struct perf_bp_spec perf_spec(const struct engine *e, unsigned int i)
{
	const struct ring_watch *w = &e->watch[i];
	struct perf_bp_spec spec = {
		.addr = w->w.addr,
		.size = w->w.size,
		.access = w->w.access,
		.sig_data = i,
		.others = armed_count(e),
		.recorder = e->recorder,
		.rings = e->rings,
		.quiet = true,
		.user_only = user_only(e, &w->w),
		.children = e->options.follow_fork,
		.used = (e->registers_before > 0 ? (unsigned int)e->registers_before : 0) + armed_count(e),
	};

	if (w->w.address) {
		spec.address = thread_address;
		spec.held = e->options.held;
		spec.address_ctx = (void *)(uintptr_t)w;
	}
	return spec;
}

struct wc_error *ring_arm(struct engine *e, const struct watchpoint *w, struct arm_report *ret)
{
	struct arm_report report = { 0 };
	struct wc_error *err = ring_arm_refuse(e, w);
	struct perf_bp_spec spec;
	struct ring_watch *a;
	int i = 0;

	if (!err && !armed_count(e))
		e->registers_before = perf_bp_used(e->pid);
	if (!err)
		err = find_place(e, &i);
	if (err)
		return err;
	intake_arm(&e->intake, (unsigned int)i, w);
	a = &e->watch[i];
	*a = (struct ring_watch){ .w = e->intake.watch[i].w, .engine = e };
	report.has_value = watchpoint_value(&a->w, e->pid, &report.value);
	if (e->recorder && w->access != ACCESS_WRITE && w->access != ACCESS_EXECUTE)
		kernel_recorder_read_silently(e->recorder);
	if (e->samples)
		ring_samples_arm(e->samples, (unsigned int)i, report.has_value, report.value);
	ring_arm_publish(e, (unsigned int)i, report.value);
	spec = perf_spec(e, (unsigned int)i);
	err = perf_bp_open(e->pid, &spec, &a->perf, &report.threads, &report.threads_armed);
	if (err)
		return err;
	a->armed = true;
	report.kernel = a->perf.kernel && report.threads_armed;
	report.kernel_refusal = perf_bp_kernel_refusal(&spec, &a->perf);
	report.verified = w->tested || (!w->hook && ring_verify(e, (unsigned int)i));
	*ret = report;
	return NULL;
}

void ring_disable(struct ring_watch *w)
{
	if (!w->armed || w->disabled)
		return;
	w->disabled = true;
	w->disabled_ns = monotonic_ns();
	perf_bp_disable(&w->perf);
	w->counted = perf_bp_count(&w->perf);
	perf_bp_close(&w->perf);
}

void ring_disarm(struct engine *e, uint32_t id)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++)
		if (e->watch[i].armed && e->watch[i].w.id == id)
			ring_disable(&e->watch[i]);
}

struct wc_error *ring_extend(struct engine *e, uint32_t id, uint32_t *ret)
{
	struct wc_error *err = NULL;
	uint32_t threads, armed, before = 0, after = 0;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES && !err; i++) {
		struct ring_watch *w = &e->watch[i];
		struct perf_bp_spec spec;

		if (!w->armed || w->disabled || w->w.id != id || !w->w.address)
			continue;
		spec = perf_spec(e, i);
		before += (uint32_t)w->perf.n;
		err = perf_bp_extend(e->pid, &spec, &w->perf, &threads, &armed);
		after += (uint32_t)w->perf.n;
	}
	if (ret)
		*ret = after > before ? after - before : 0;
	return err;
}
