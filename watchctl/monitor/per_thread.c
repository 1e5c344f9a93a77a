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

/* @places: those that are known at which threads start. */
static struct wc_error *report_late(struct monitor *m, size_t places)
{
	const char *why = "not enough debug registers are left to make new threads wait";

	if (m->reported_late)
		return NULL;
	m->reported_late = true;
	if (m->ops->hooks_late)
		why = "this engine cannot make new threads wait";
	else if (!places)
		why = "the place where this program starts threads is not known";
	return monitor_note(
		m,
		"%s: %s are armed when watchctl finds them (it looks %llu times a second): earlier "
		"accesses are not seen",
		why,
		m->begins && m->ops->hooks_late ? "threads, including the first,"
						: "threads that start from now on",
		1000000000ull / EXTEND_NS);
}

/* Not where there is no need, nor where the C library may not be there yet: then on_loader() comes again. */
static bool may_hook(const struct monitor *m)
{
	return !m->thread_hooks && !m->ops->sees_births && !m->hooked && (!m->begins || m->started);
}

struct wc_error *monitor_find_thread_starts(struct monitor *m)
{
	struct memory_view mem = proc_memory(&m->pid);
	struct module_list modules = { 0 };
	struct wc_error *err;

	if (m->knows_thread_starts || !may_hook(m))
		return NULL;
	err = module_list_read(m->pid, &modules);
	if (err)
		return err;
	m->thread_starts = thread_start_addresses(&modules, &mem, m->thread_start, THREAD_HOOKS);
	m->knows_thread_starts = true;
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

/*
 * Every new thread passes a few known addresses before it runs code of the program: it waits there until its
 * own copy is armed. Where no register is left for that, or the engine cannot make threads wait, it is reported.
 */
struct wc_error *monitor_hook_threads(struct monitor *m)
{
	struct wc_error *err;
	size_t n, k;

	if (!may_hook(m))
		return NULL;
	err = monitor_find_thread_starts(m);
	if (err)
		return err;
	n = m->thread_starts;
	for (k = 0; k < n && k < THREAD_HOOKS && !m->ops->hooks_late; k++) {
		err = arm_hook(m, THREAD_HOOK + m->thread_hooks, m->thread_start[k]);
		if (err) {
			wc_error_free(err);
			break;
		}
		m->thread_hooks++;
	}
	err = !n || m->thread_hooks < n ? report_late(m, n) : NULL;
	return err ? err : monitor_extend(m); /* who came since the watch was armed has passed there */
}

void monitor_unhook_threads(struct monitor *m)
{
	for (; m->thread_hooks; m->thread_hooks--)
		m->ops->disarm(m->engine, THREAD_HOOK + m->thread_hooks - 1);
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
		err = report_late(m, 0);
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
