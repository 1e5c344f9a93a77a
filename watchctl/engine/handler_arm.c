#include <stddef.h>

#include "watchctl/engine/dregs.h"
#include "watchctl/engine/handler_engine.h"
#include "watchctl/target/proc.h"

#define TRAP_PERF_CODE 6
#define TRAP_HWBKPT_CODE 4

uint64_t handler_watch_offset(unsigned int i)
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

bool handler_has_ptrace_watch(const struct engine *e)
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
		handler_say(e, err->text);
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

struct wc_error *handler_arm(struct engine *e, const struct watchpoint *w, struct arm_report *ret)
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
	if (w->slot >= 0 && handler_has_ptrace_watch(e))
		return wc_error_new(WC_ESLOTS, "only one watch can name its register (-i): the kernel does "
					       "not tell which of several "
					       "was hit; leave -i out for the others");
	if (w->access != ACCESS_EXECUTE)
		report.has_value = read_value(e, w, &report.value);
	shared.shadow = report.value;
	e->watch[i] = (struct armed_watch){ .w = *w };
	e->intake.watch[i] = (struct intake_watch){ .w = *w };
	injection_write(&e->inj, handler_watch_offset(i), &shared, sizeof(shared));
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
void handler_disable(struct armed_watch *a)
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

void handler_disarm(struct engine *e, uint32_t id)
{
	unsigned int i;

	for (i = 0; i < ENGINE_WATCHES; i++)
		if (e->watch[i].armed && e->watch[i].w.id == id)
			handler_disable(&e->watch[i]);
}
