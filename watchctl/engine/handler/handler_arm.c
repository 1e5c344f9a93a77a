#include <stddef.h>
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/engine/handler/handler_engine.h"
#include "watchctl/engine/plan/watchpoint.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/trap_block.h"

#define TRAP_PERF_CODE 6
#define TRAP_HWBKPT_CODE 4
#define WIDEST 72u /* bytes from one watch to another that an instruction of 64 bytes can hit as well */

uint64_t handler_watch_offset(unsigned int i)
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

bool handler_has_ptrace_watch(const struct engine *e)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++)
		if (e->watch[i].armed && e->watch[i].w.slot >= 0)
			return true;
	return false;
}

static struct wc_error *self_test(struct engine *e, struct armed_watch *a, struct arm_report *report)
{
	bool write = a->w.access == ACCESS_WRITE, seen = false;
	struct wc_error *err;
	const char *why;

	report->verified = a->w.tested;
	if (a->w.tested)
		return NULL;
	why = watchpoint_untestable(&a->w, e->pid);
	if (why && e->options.say)
		e->options.say(e->options.say_ctx, "not verified: %s", why);
	if (why)
		return NULL;
	err = inject_self_test(&e->inj, 1, &a->w.addr, &write,
			       a->w.slot < 0 ? TRAP_PERF_CODE : TRAP_HWBKPT_CODE, &seen);
	if (err) {
		/* It is a courtesy: being busy is no reason to give up the watch. */
		handler_say(e, err->text);
		wc_error_free(err);
		return NULL;
	}
	a->self_tests += seen;
	report->verified = seen;
	return NULL;
}

/* The copy of a thread, and the value that it has before its first access. */
static bool thread_address(void *ctx, uint64_t thread_pointer, uint64_t *ret)
{
	const struct armed_watch *a = ctx;

	if (!a->w.address(a->w.address_ctx, thread_pointer, ret))
		return false;
	if (a->shadows)
		watchpoint_remember(&a->w, a->pid, *ret, a->shadows);
	return true;
}

struct place {
	uint64_t addr, guard_end; /* of a mapping without access that a stack's may follow */
	bool on_stack;
};

/* The first thread's, or one as libcs make them for others, above a guard. */
static bool is_stack(void *ctx, const struct proc_map *m)
{
	struct place *p = ctx;

	p->on_stack = m->end > p->addr && m->start <= p->addr &&
		      (!strcmp(m->name, "[stack]") || m->start == p->guard_end);
	p->guard_end = m->read || m->write || m->exec ? 0 : m->end;
	return m->end <= p->addr;
}

/*
 * Where the kernel puts our signals' frames. Without the guard each would be a hit, for which there is a
 * signal.
 */
static bool meets_our_frames(const struct engine *e, const struct watchpoint *w)
{
	struct place p = { .addr = w->addr };

	return !e->guard && !w->address && proc_maps(e->pid, is_stack, &p) && p.on_stack;
}

/*
 * The guard reads values. Where it cannot read what is watched for reads without being counted itself, such a
 * watch does not see the kernel.
 */
static bool user_only(const struct engine *e, const struct watchpoint *w)
{
	return (w->access != ACCESS_WRITE && e->guard && !kernel_recorder_reads_silently(e->guard)) ||
	       meets_our_frames(e, w);
}

/* That is where the handler is. */
static bool holds_handler(void *ctx)
{
	return handler_memory_state(ctx) == MEMORY_OURS;
}

static struct perf_bp_spec perf_spec(const struct engine *e, unsigned int i)
{
	const struct armed_watch *a = &e->watch[i];
	struct perf_bp_spec spec = {
		.addr = a->w.addr,
		.size = a->w.size,
		.access = a->w.access,
		.sig_data = e->cookie | i,
		.others = armed_count(e),
		.recorder = e->guard,
		.user_only = user_only(e, &a->w),
		.used = (e->registers_before > 0 ? (unsigned int)e->registers_before : 0) + armed_count(e),
		.process = { holds_handler, (void *)(uintptr_t)e },
	};

	spec.children = e->options.follow_fork && !a->w.hook;
	if (a->w.address) {
		spec.address = thread_address;
		spec.held = a->held;
		spec.address_ctx = (void *)(uintptr_t)a;
	}
	return spec;
}

static struct wc_error *arm_registers(struct engine *e, unsigned int i, struct arm_report *report)
{
	struct armed_watch *a = &e->watch[i];
	const struct watchpoint *w = &a->w;
	struct perf_bp_spec spec = perf_spec(e, i);
	struct ptrace_bp wanted;
	struct wc_error *err;

	if (w->slot < 0) {
		err = perf_bp_open(e->pid, &spec, &a->perf, &report->threads, &report->threads_armed);
		report->kernel = a->perf.kernel && report->threads_armed;
		report->kernel_refusal = perf_bp_kernel_refusal(&spec, &a->perf);
		if (spec.user_only && !e->guard && report->kernel_refusal)
			report->kernel_refusal =
				"on a stack the kernel also writes the frames of watchctl's own signals, and "
				"distinguishing these needs CAP_BPF and CAP_PERFMON";
		return err;
	}
	if (trap_is_blocked(e->pid))
		return wc_error_new(
			WC_ENOTSUP,
			"a thread of process %d blocks SIGTRAP, and the kernel would end it if it hit a register "
			"set by -i: choose --engine ptrace, or leave -i out",
			e->pid);
	report->kernel_refusal = "a register set through ptrace (-i) does not trap in the kernel";
	wanted = (struct ptrace_bp){
		.pid = e->pid,
		.slot = (unsigned int)w->slot,
		.addr = w->addr,
		.size = w->size,
		.access = w->access,
		.process = spec.process,
	};
	err = ptrace_bp_open(&wanted, e->inj.held, &a->ptrace);
	if (!err)
		report->threads = report->threads_armed = (uint32_t)a->ptrace.armed.n;
	return err;
}

/* Both within what one instruction can access: then the handler looks for both at the hit of either, also at
 * one that was made before it was armed. */
static void note_neighbours(struct engine *e, unsigned int i)
{
	uint64_t addr = e->watch[i].w.addr;
	unsigned int k;

	for (k = 0; k < WIRE_WATCHES; k++) {
		struct armed_watch *a = &e->watch[k];

		if (k == i || !a->armed || a->w.addr - addr + WIDEST >= 2 * WIDEST ||
		    (a->disabled && !handler_outstanding_at(e, k)))
			continue;
		a->near_another = e->watch[i].near_another = true;
	}
}

static bool is_better_place(const struct engine *e, int i, int than)
{
	bool waits = handler_outstanding_at(e, (unsigned int)i);
	bool other_waits = handler_outstanding_at(e, (unsigned int)than);

	return waits == other_waits ? e->watch[i].disabled_ns < e->watch[than].disabled_ns : other_waits;
}

/*
 * A place for one more watch: one that was never used, else the one whose watch was disarmed first, with hits
 * of it hardly under way any more. What it counted is kept.
 */
static int find_place(struct engine *e)
{
	struct engine_counts c;
	int best = -1;

	for (int i = 0; i < (int)WIRE_WATCHES; i++) {
		const struct armed_watch *a = &e->watch[i];

		if (!a->armed)
			return i;
		if (a->disabled && (best < 0 || is_better_place(e, i, best)))
			best = i;
	}
	if (best < 0)
		return -1;
	if (!e->watch[best].w.hook && !e->watch[best].finished) {
		handler_counts_of(e, (unsigned int)best, &c);
		if (!past_counts_add(&e->past, e->watch[best].w.id, &c))
			return -1;
	}
	e->left_behind |= e->watch[best].near_another || handler_outstanding_at(e, (unsigned int)best);
	e->watch[best].armed = false;
	return best;
}

static bool holds_named_register(const struct engine *e)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++)
		if (e->watch[i].armed && !e->watch[i].disabled && e->watch[i].w.slot >= 0)
			return true;
	return false;
}

static struct wc_error *handler_arm_refuse(const struct engine *e, const struct watchpoint *w)
{
	if (armed_count(e) == ENGINE_WATCHES)
		return wc_error_new(
			WC_ESLOTS,
			"no debug register is left: a CPU has %u, and this command uses all of them",
			ENGINE_WATCHES);
	if (w->slot >= 0 && w->address)
		return wc_error_new(WC_ENOTSUP,
				    "-i cannot be combined with a thread-local variable: omit -i");
	if (w->slot >= 0 && holds_named_register(e))
		return wc_error_new(
			WC_ESLOTS,
			"only one watch can choose its register (-i), because the kernel does not report "
			"which of several was hit: omit -i for the others");
	return watchpoint_check(w, e->pid);
}

/* Reports the handler what it will be called for. */
static void handler_arm_publish(struct engine *e, unsigned int i, uint64_t value)
{
	const struct watchpoint *w = &e->watch[i].w;
	struct wire_watch shared = watchpoint_wire(w, value);
	uint32_t hwbkpt = i + 1;

	shared.flags |= WIRE_WATCH_PARTIAL;
	if (e->guard)
		kernel_recorder_forget(e->guard, i);
	if (e->guard && w->access != ACCESS_WRITE)
		kernel_recorder_read_silently(e->guard);
	if (w->filter)
		handler_write(e, WIRE_FILTERS_OFFSET + i * sizeof(*w->filter), w->filter, sizeof(*w->filter));
	handler_write(e, handler_watch_offset(i), &shared, sizeof(shared));
	if (i >= e->nwatches) {
		e->nwatches = i + 1;
		injection_write(&e->inj, offsetof(struct wire_control, nwatches), &e->nwatches,
				sizeof(e->nwatches));
	}
	if (w->slot >= 0)
		injection_write(&e->inj, offsetof(struct wire_control, hwbkpt_watch), &hwbkpt,
				sizeof(hwbkpt));
}

void handler_set_flags(const struct engine *e, unsigned int i, uint32_t more)
{
	uint32_t flags = watchpoint_wire(&e->watch[i].w, 0).flags | more;

	handler_write(e, handler_watch_offset(i) + offsetof(struct wire_watch, flags), &flags, sizeof(flags));
}

static void beat(void *ctx)
{
	handler_beat(ctx);
}

struct wc_error *handler_arm(struct engine *e, const struct watchpoint *w, struct arm_report *ret)
{
	struct arm_report report = { 0 };
	struct wc_error *err = handler_arm_refuse(e, w);
	struct armed_watch *a;
	int i;

	if (!err && w->slot >= 0 && e->claim < 0)
		err = ptrace_bp_claim(e->pid, &e->claim);
	if (err)
		return err;
	if (!armed_count(e))
		e->registers_before = perf_bp_used(e->pid);
	i = find_place(e);
	if (i < 0)
		return wc_error_new(WC_EFAIL, "no place is left for one more watch");
	intake_arm(&e->intake, (unsigned int)i, w);
	a = &e->watch[i];
	*a = (struct armed_watch){ .w = e->intake.watch[i].w, .pid = e->pid, .held = e->inj.held };
	if (e->inj.shared && w->address)
		a->shadows = (struct wire_shadow *)((char *)e->inj.shared + WIRE_SHADOWS_OFFSET) +
			     (size_t)i * WIRE_SHADOWS;
	note_neighbours(e, (unsigned int)i);
	report.has_value = watchpoint_value(&a->w, e->pid, &report.value);
	handler_arm_publish(e, (unsigned int)i, report.value);
	e->hooks |= w->hook;
	if (w->hook)
		heartbeat_start(&e->heartbeat, beat, e);
	err = arm_registers(e, (unsigned int)i, &report);
	if (err) {
		handler_set_flags(e, (unsigned int)i, WIRE_WATCH_OFF);
		return err;
	}
	a->armed = true;
	if (report.threads_armed == report.threads)
		handler_set_flags(e, (unsigned int)i, 0);
	err = self_test(e, a, &report);
	if (!err)
		*ret = report;
	return err;
}

/* No more hits of this watch, and its count is final. */
void handler_disable(struct armed_watch *a)
{
	if (!a->armed || a->disabled)
		return;
	a->disabled = true;
	a->disabled_ns = monotonic_ns();
	if (a->w.slot >= 0) {
		ptrace_bp_close(&a->ptrace);
		return;
	}
	perf_bp_disable(&a->perf);
	a->counted = perf_bp_count(&a->perf);
	perf_bp_close(&a->perf);
}

struct wc_error *handler_extend(struct engine *e, uint32_t id, uint32_t *ret)
{
	struct wc_error *err = NULL;
	uint32_t threads, armed, before = 0, after = 0;
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES && !err; i++) {
		struct armed_watch *a = &e->watch[i];
		struct perf_bp_spec spec;

		if (!a->armed || a->disabled || a->w.id != id || !a->w.address)
			continue;
		spec = perf_spec(e, i);
		before += (uint32_t)a->perf.n;
		err = perf_bp_extend(e->pid, &spec, &a->perf, &threads, &armed);
		after += (uint32_t)a->perf.n;
	}
	if (ret)
		*ret = after > before ? after - before : 0;
	return err;
}

static void switch_off(struct engine *e, unsigned int i)
{
	handler_set_flags(e, i, WIRE_WATCH_PARTIAL);
	handler_disable(&e->watch[i]);
	handler_set_flags(e, i, WIRE_WATCH_OFF);
}

void handler_disarm(struct engine *e, uint32_t id)
{
	unsigned int i;

	for (i = 0; i < WIRE_WATCHES; i++)
		if (e->watch[i].armed && !e->watch[i].disabled && e->watch[i].w.id == id)
			switch_off(e, i);
}
