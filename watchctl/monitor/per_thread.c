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

static struct wc_error *tell_late(struct monitor *m)
{
	if (m->told_late)
		return NULL;
	m->told_late = true;
	return monitor_note(
		m,
		"threads that start from now on are armed when they are noticed (%llu times a second): what "
		"they access before that is not seen",
		1000000000ull / EXTEND_NS);
}

/*
 * Every new thread passes a few known addresses before it runs code of the program: it waits there until its
 * own copy is armed. Where no register is left for that, or the engine cannot make threads wait, it is told.
 */
struct wc_error *monitor_hook_threads(struct monitor *m)
{
	struct memory_view mem = proc_memory(&m->pid);
	struct module_list modules = { 0 };
	uint64_t start[THREAD_HOOKS];
	struct wc_error *err;
	size_t n, k;

	if (m->thread_hooks || m->ops->sees_births || m->hooked || (m->launched && !m->started))
		return NULL; /* no need; or the C library may not be there yet: then on_loader() comes again
			      */
	err = module_list_read(m->pid, &modules);
	if (err)
		return err;
	n = thread_start_addresses(&modules, &mem, start, THREAD_HOOKS);
	module_list_deinit(&modules);
	for (k = 0; k < n && k < THREAD_HOOKS && !m->ops->hooks_late; k++) {
		struct watchpoint p = {
			.id = THREAD_HOOK + m->thread_hooks,
			.addr = start[k],
			.size = 1,
			.access = ACCESS_EXECUTE,
			.slot = -1,
			.hook = true,
		};
		struct arm_report report = { 0 };

		err = m->ops->arm(m->engine, &p, &report);
		if (err) {
			wc_error_free(err);
			break;
		}
		m->thread_hooks++;
	}
	if (!n || m->thread_hooks < n)
		return tell_late(m);
	return NULL;
}

void monitor_unhook_threads(struct monitor *m)
{
	for (; m->thread_hooks; m->thread_hooks--)
		m->ops->disarm(m->engine, THREAD_HOOK + m->thread_hooks - 1);
}
