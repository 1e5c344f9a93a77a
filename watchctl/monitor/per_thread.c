#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/code/tls/tls.h"
#include "watchctl/monitor/monitored.h"

bool monitor_any_per_thread(const struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		if (m->watch[i].armed && monitor_is_per_thread(&m->watch[i]))
			return true;
	return false;
}

struct wc_error *monitor_extend(struct monitor *m)
{
	struct wc_error *err = NULL;
	unsigned int i;

	if (!monitor_any_per_thread(m))
		return NULL;
	for (i = 0; i < MONITOR_WATCHES && !err; i++)
		if (m->watch[i].armed && monitor_is_per_thread(&m->watch[i]))
			err = m->ops->extend(m->engine, m->watch[i].id, NULL);
	return err;
}

/*
 * Of which kind there is a variable: @on_demand, or not. An engine that sees threads at their birth needs no place
 * where they start.
 */
static bool needs(const struct monitor *m, bool on_demand)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES && (on_demand || !m->ops->sees_births); i++)
		if (monitor_wants(m, i) && monitor_is_per_thread(&m->watch[i]) &&
		    m->watch[i].on_demand == on_demand)
			return true;
	return false;
}

static struct wc_error *report_late(struct monitor *m, struct thread_places *p)
{
	const bool starts = p == &m->starts;
	const char *why, *who = "copies of a library's variables that threads get from now on";

	if (p->reported_late)
		return NULL;
	p->reported_late = true;
	if (starts)
		who = m->begins && m->ops->hooks_late ? "threads, including the first,"
						      : "threads that start from now on";
	if (m->ops->hooks_late)
		why = starts ? "this engine cannot make new threads wait"
			     : "this engine cannot make threads wait";
	else if (!p->n)
		why = starts ? "the place where this program starts threads is not known"
			     : "the place where the loader gives threads their copies is not known";
	else
		why = starts ? "not enough debug registers are left to make new threads wait"
			     : "no debug register is left to make threads wait";
	return monitor_note(
		m,
		"%s: %s are armed when watchctl finds them (it looks %llu times a second): earlier "
		"accesses are not seen",
		why, who, 1000000000ull / EXTEND_NS);
}

/* Not where the C library may not be there yet: then on_loader() comes again. */
static bool may_hook(const struct monitor *m)
{
	return !m->hooked && (!m->begins || m->started);
}

struct wc_error *monitor_find_thread_places(struct monitor *m)
{
	const bool starts = needs(m, false) && !m->starts.known, copies = needs(m, true) && !m->copies.known;
	struct memory_view mem = proc_memory(&m->pid);
	struct module_list modules = { 0 };
	struct wc_error *err;

	if (!may_hook(m) || (!starts && !copies))
		return NULL;
	err = module_list_read(m->pid, &modules);
	if (err && err->kind == WC_ETARGET) { /* it has ended, as the engine will say */
		wc_error_free(err);
		return NULL;
	}
	if (err)
		return err;
	if (starts)
		m->starts.n = thread_start_addresses(&modules, &mem, m->starts.at, THREAD_PLACES);
	if (copies)
		m->copies.n = tls_copy_addresses(&modules, &mem, m->copies.at, THREAD_PLACES);
	m->starts.known |= starts;
	m->copies.known |= copies;
	module_list_deinit(&modules);
	return NULL;
}

static struct wc_error *arm_hook(struct monitor *m, uint32_t id, uint64_t addr)
{
	const struct watchpoint p = {
		.id = id,
		.addr = addr,
		.size = 1,
		.access = ACCESS_EXECUTE,
		.slot = -1,
		.hook = true,
	};
	struct arm_report report = { 0 };

	return m->ops->arm(m->engine, &p, &report);
}

/* Where no register is left for that, or the engine cannot make threads wait, it is reported. */
static struct wc_error *hook_places(struct monitor *m, struct thread_places *p)
{
	struct wc_error *err;
	size_t k = 0;

	for (; k < p->n && k < THREAD_PLACES && !m->ops->hooks_late; k++) {
		err = arm_hook(m, THREAD_HOOK + m->thread_hooks, p->at[k]);
		if (err) {
			wc_error_free(err);
			break;
		}
		m->thread_hooks++;
	}
	p->hooked = k > 0;
	return !p->n || k < p->n ? report_late(m, p) : NULL;
}

/* Every thread passes a few known addresses before it can access a copy: it waits there until that is armed. */
struct wc_error *monitor_hook_threads(struct monitor *m)
{
	struct wc_error *err;
	bool starts, copies;

	if (!may_hook(m))
		return NULL;
	err = monitor_find_thread_places(m);
	starts = needs(m, false) && m->starts.known && !m->starts.hooked;
	copies = needs(m, true) && m->copies.known && !m->copies.hooked;
	if (!err && copies) /* first: what is late there is all of a thread's accesses, or nearly */
		err = hook_places(m, &m->copies);
	if (!err && starts)
		err = hook_places(m, &m->starts);
	/* A thread that came since the watch was armed has passed there. */
	return err || (!starts && !copies) ? err : monitor_extend(m);
}

void monitor_unhook_threads(struct monitor *m)
{
	for (; m->thread_hooks; m->thread_hooks--)
		m->ops->disarm(m->engine, THREAD_HOOK + m->thread_hooks - 1);
	m->starts.hooked = m->copies.hooked = false;
}

/* Some thread had its copy when we looked: a launched program has only the first one. */
static bool first_thread_is_set_up(const struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		if (m->watch[i].armed && m->watch[i].thread_address)
			return true;
	return false;
}

static struct wc_error *hook_thread_pointer(struct monitor *m)
{
	struct memory_view mem = proc_memory(&m->pid);
	struct module_list modules = { 0 };
	struct wc_error *err = module_list_read(m->pid, &modules);
	uint64_t at[FIRST_HOOKS];
	size_t n, k;

	if (err)
		return err;
	n = thread_pointer_addresses(&modules, &mem, at, FIRST_HOOKS);
	module_list_deinit(&modules);
	for (k = 0; k < n && n <= FIRST_HOOKS && !err; k++) {
		err = arm_hook(m, LOADER_HOOK, at[k]);
		m->hooked |= !err;
	}
	if (!err)
		return NULL;
	m->ops->disarm(m->engine, LOADER_HOOK);
	m->hooked = false;
	return wc_error_context(err, "a debug register is needed to detect the start of the first thread");
}

struct wc_error *monitor_hook_first_thread(struct monitor *m)
{
	struct wc_error *err;

	if (!m->begins || m->started || !monitor_any_per_thread(m))
		return NULL;
	err = first_thread_is_set_up(m) ? NULL : hook_thread_pointer(m);
	/* It may have passed there between the look and the hook: then nobody reports it. */
	if (!err && m->hooked)
		err = monitor_extend(m);
	/* At once: the program may be over before its threads are looked at. */
	if (!err && m->ops->hooks_late)
		err = report_late(m, &m->starts);
	if (err || (m->hooked && !first_thread_is_set_up(m)))
		return err;
	m->started = true;
	monitor_unhook_loader(m);
	if (!first_thread_is_set_up(m))
		err = monitor_note(
			m,
			"the place where this program sets up its first thread is not known: accesses of that thread "
			"before watchctl finds it (it looks %llu times a second) are not seen",
			1000000000ull / EXTEND_NS);
	return err ? err : monitor_hook_threads(m);
}
