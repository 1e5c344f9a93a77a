/*
 * Watches of what a library will bring: a hook in the loader shows when it comes. In a static program the
 * same hook stands where the first thread gets its thread pointer: see monitor_hook_first_thread().
 */
#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/monitor/monitored.h"
#include "watchctl/target/proc/loader_hook.h"

static void note_start(struct monitor *m)
{
	m->started = true;
	if (m->ops->begun)
		m->ops->begun(m->engine);
}

static struct wc_error *hook_loader(struct monitor *m, uint64_t addr)
{
	struct watchpoint w = {
		.id = LOADER_HOOK, .addr = addr, .size = 1, .access = ACCESS_EXECUTE, .slot = -1, .hook = true
	};
	struct arm_report report;
	struct wc_error *err = m->ops->arm(m->engine, &w, &report);

	if (err)
		return wc_error_context(err,
					"one debug register is needed to detect the loading of libraries");
	m->hooked = true;
	return NULL;
}

static bool all_armed(const struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		if (monitor_wants(m, i) && !m->watch[i].armed && !m->watch[i].waits)
			return false;
	return true;
}

/* Nobody can bring it any more: says what is wrong with it. With --exec follow the next program may have it.
 */
static struct wc_error *give_up_missing(struct monitor *m)
{
	struct wc_error *err = NULL, *why;
	unsigned int i;
	bool missing;

	for (i = 0; i < MONITOR_WATCHES && !err; i++) {
		if (!monitor_wants(m, i) || m->watch[i].armed || m->watch[i].waits)
			continue;
		why = monitor_plan(m, i, &missing);
		if (!why || !m->options.follow_exec || why->kind != WC_ENAME) {
			err = why;
			continue;
		}
		err = monitor_note(m, "not in this program; a program that it executes may contain it: %s",
				   why->text);
		wc_error_free(why);
	}
	if (!err || m->launched || m->options.pending)
		return err;
	return wc_error_hint(err, "with --pending, watchctl waits until the program loads it");
}

void monitor_unhook_loader(struct monitor *m)
{
	if (!m->hooked || !all_armed(m) || (!m->started && monitor_any_per_thread(m)))
		return;
	m->ops->disarm(m->engine, LOADER_HOOK);
	m->hooked = false;
}

/* What an engine that makes nobody wait has armed now was there before. */
static struct wc_error *report_late(struct monitor *m, const bool *was_armed)
{
	struct wc_error *err = NULL;
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES && !err && m->ops->hooks_late; i++)
		if (m->watch[i].armed && !was_armed[i])
			err = monitor_note(
				m,
				"%s: the %s engine cannot make the program wait when a library is loaded: "
				"accesses before the watch was armed are not seen",
				m->options.watch[i].expr, m->ops->name);
	return err;
}

/*
 * The loader has mapped something, or the first thread has its thread pointer, and the thread waits for us;
 * or that may have happened before we could be known.
 */
static struct wc_error *on_loader(struct monitor *m, bool any_name_may_come)
{
	bool was_armed[MONITOR_WATCHES], missing;
	struct wc_error *err;
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		was_armed[i] = m->watch[i].armed;
	err = monitor_arm_all(m, any_name_may_come, &missing);
	if (err && m->started) {
		/* The program runs: a name that a new library makes ambiguous must not end the other watches.
		 */
		struct wc_error *note = monitor_note(m, "%s", err->text);

		wc_error_free(err);
		err = note;
	}
	if (!err)
		err = report_late(m, was_armed);
	if (!err)
		err = monitor_extend(m); /* the first thread has its thread pointer by now */
	if (!err && !m->started && loader_hook_startup_done(m->pid))
		note_start(m);
	if (err)
		return err;
	monitor_unhook_loader(m);
	return !m->hooked && monitor_any_per_thread(m) ? monitor_hook_threads(m) : NULL;
}

static struct wc_error *arm_first(struct monitor *m)
{
	bool may_wait = m->launched || m->options.pending || m->options.follow_exec, missing = false;
	struct module_list modules = { 0 };
	struct wc_error *err = module_list_read(m->pid, &modules);
	uint64_t hook = err || !may_wait ? 0 : loader_hook_address(m->pid, &modules);
	bool starting = hook && !loader_hook_startup_done(m->pid);

	module_list_deinit(&modules);
	if (!err)
		err = monitor_arm_all(m, starting || m->options.follow_exec, &missing);
	if (err || (!missing && !(m->begins && monitor_any_per_thread(m))))
		return err;
	if (!hook || !(starting || m->options.pending)) {
		err = missing ? give_up_missing(m) : NULL;
		return err ? err : monitor_hook_first_thread(m);
	}
	err = hook_loader(m, hook);
	/* What was loaded between the look and the hook tells nobody any more. */
	return err || m->launched ? err : on_loader(m, true);
}

struct wc_error *monitor_arm_first(struct monitor *m)
{
	struct wc_error *err = arm_first(m);

	if (!err && !m->hooked && m->ops->begun)
		m->ops->begun(m->engine);
	return err;
}

/* It may come with a library: the program is still loading those that it begins with, or we are to wait. */
static struct wc_error *wait_for_library(struct monitor *m, unsigned int i, struct wc_error *why,
					 bool missing)
{
	struct module_list modules = { 0 };
	struct wc_error *err;
	uint64_t hook;

	if (why->kind != WC_ENAME)
		return why;
	err = module_list_read(m->pid, &modules);
	hook = err ? 0 : loader_hook_address(m->pid, &modules);
	module_list_deinit(&modules);
	wc_error_free(err);
	if (!hook || !((missing && m->options.pending) || !loader_hook_startup_done(m->pid)))
		return missing && !m->options.pending
			       ? wc_error_hint(why,
					       "with --pending, watchctl waits until the program loads it")
			       : why;
	wc_error_free(why);
	err = m->hooked ? NULL : hook_loader(m, hook);
	if (!err)
		err = on_loader(m, true);
	if (err || m->watch[i].armed)
		return err;
	return monitor_note(m, "%s waits for its library", m->options.watch[i].expr);
}

struct wc_error *monitor_arm_later(struct monitor *m, unsigned int i)
{
	struct wc_error *err;
	bool missing = false;

	if (m->begins && !m->started && !m->hooked && loader_hook_startup_done(m->pid))
		note_start(m);
	err = monitor_arm_one(m, i, &missing);
	if (err)
		return wait_for_library(m, i, err, missing);
	return monitor_is_per_thread(&m->watch[i]) ? monitor_hook_threads(m) : NULL;
}

struct wc_error *monitor_on_hook(struct monitor *m)
{
	struct engine_hook hook = { 0 };

	m->ops->hooked(m->engine, &hook);
	if (hook.id >= POINTER_HOOK)
		return monitor_follow(m, (hook.id - POINTER_HOOK) / LOCATE_POINTERS);
	if (hook.id >= THREAD_HOOK)
		return monitor_extend(m);
	return on_loader(m, m->begins && !m->started && !loader_hook_startup_done(m->pid));
}
