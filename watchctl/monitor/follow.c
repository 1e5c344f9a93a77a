#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/monitor/monitored.h"

static uint32_t hook_id(unsigned int i, unsigned int k)
{
	return POINTER_HOOK + LOCATE_POINTERS * i + k;
}

static bool is_wanted(const struct monitored *w, uint64_t pointer)
{
	unsigned int k;

	for (k = 0; k < w->variable.npointers; k++)
		if (w->variable.pointer[k] == pointer)
			return true;
	return false;
}

static bool is_armed(const struct monitored *w, uint64_t pointer)
{
	unsigned int k;

	for (k = 0; k < LOCATE_POINTERS; k++)
		if (w->pointer[k] == pointer)
			return true;
	return false;
}

static struct wc_error *arm_pointer(struct monitor *m, unsigned int i, uint64_t pointer)
{
	struct monitored *w = &m->watch[i];
	struct watchpoint p = {
		.addr = pointer, .size = 8, .access = ACCESS_WRITE, .slot = -1, .hook = true
	};
	struct arm_report report = { 0 };
	struct wc_error *err;
	unsigned int k;

	for (k = 0; k < LOCATE_POINTERS && w->pointer[k]; k++)
		;
	if (k == LOCATE_POINTERS)
		return wc_error_new(WC_ENOTSUP, "the path of %s has more than %u pointers",
				    m->options.watch[i].expr, LOCATE_POINTERS);
	if (pointer % 8)
		return wc_error_new(
			WC_ENOTSUP,
			"the pointer at 0x%llx on the path of %s is not aligned: it cannot be followed",
			(unsigned long long)pointer, m->options.watch[i].expr);
	p.id = hook_id(i, k);
	err = m->ops->arm(m->engine, &p, &report);
	if (err)
		return wc_error_context(err,
					"following %s takes one debug register for each pointer on its path",
					m->options.watch[i].expr);
	w->pointer[k] = pointer;
	return NULL;
}

struct wc_error *monitor_arm_pointers(struct monitor *m, unsigned int i)
{
	struct monitored *w = &m->watch[i];
	struct wc_error *err = NULL;
	unsigned int k;

	for (k = 0; k < LOCATE_POINTERS; k++) {
		if (!w->pointer[k] || is_wanted(w, w->pointer[k]))
			continue;
		m->ops->disarm(m->engine, hook_id(i, k));
		w->pointer[k] = 0;
	}
	for (k = 0; k < w->variable.npointers && !err; k++)
		if (!is_armed(w, w->variable.pointer[k]))
			err = arm_pointer(m, i, w->variable.pointer[k]);
	return err;
}

void monitor_disarm_pointers(struct monitor *m, unsigned int i)
{
	unsigned int k;

	for (k = 0; k < LOCATE_POINTERS; k++) {
		if (m->watch[i].pointer[k])
			m->ops->disarm(m->engine, hook_id(i, k));
		m->watch[i].pointer[k] = 0;
	}
	m->watch[i].follows = m->watch[i].waits = m->watch[i].tested = false;
}

static struct wc_error *report_moved(struct monitor *m, unsigned int i, uint64_t from)
{
	const struct monitored *w = &m->watch[i];
	const char *expr = m->options.watch[i].expr;

	if (w->waits)
		return monitor_note(m, "%s: a pointer on the path became null or invalid: the watch waits",
				    expr);
	if (!from)
		return monitor_note(m, "%s is now at 0x%llx", expr, (unsigned long long)w->variable.addr);
	return monitor_note(m, "%s moved from 0x%llx to 0x%llx: a pointer on its path changed", expr,
			    (unsigned long long)from, (unsigned long long)w->variable.addr);
}

/*
 * The thread that changed the pointer waits (but for the ring engine, which cannot make it wait): when it
 * goes on, the watch is where the path leads now.
 */
struct wc_error *monitor_follow(struct monitor *m, unsigned int i)
{
	struct monitored *w = &m->watch[i];
	uint64_t from = w->armed ? w->variable.addr : 0;
	bool missing, moved;
	struct wc_error *err, *reported;

	if (!w->follows)
		return NULL; /* of one that was removed, or is disabled */
	err = monitor_plan(m, i, &missing);
	if (err) {
		/* It leads to where nothing can be watched: said, and the path is watched on. */
		w->waits = true;
		reported = monitor_note(m, "%s", err->text);
		wc_error_free(err);
		if (reported)
			return reported;
	}
	moved = w->waits || !from || from != w->variable.addr;
	if (!moved)
		return monitor_arm_pointers(m, i);
	if (from) {
		m->ops->disarm(m->engine, w->id);
		w->armed = false;
	}
	err = monitor_arm_pointers(m, i);
	if (!err && !w->waits)
		err = monitor_arm(m, i);
	if (err) {
		w->waits = true;
		reported = monitor_note(m, "%s", err->text);
		wc_error_free(err);
		return reported;
	}
	return from || !w->waits ? report_moved(m, i, from) : NULL;
}

static bool is_elsewhere(struct monitor *m, unsigned int i, const struct module_list *modules)
{
	const struct monitored *w = &m->watch[i];
	struct memory_view mem = proc_memory(&m->pid);
	struct variable now = { 0 };
	struct wc_error *err = locate(m->locator, m->options.watch[i].expr, modules, &mem, &now, NULL);
	bool is = w->waits ? !err : !err && now.addr != w->variable.addr;

	wc_error_free(err);
	variable_deinit(&now);
	return is;
}

struct wc_error *monitor_look_again(struct monitor *m)
{
	struct module_list modules = { 0 };
	struct wc_error *err = NULL;
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES && !err; i++) {
		if (!m->watch[i].follows || !m->watch[i].has_bounds)
			continue;
		if (!modules.n && (err = module_list_read(m->pid, &modules))) {
			/* It ends: the engine will say so. */
			wc_error_free(err);
			return NULL;
		}
		if (is_elsewhere(m, i, &modules))
			err = monitor_follow(m, i);
	}
	module_list_deinit(&modules);
	return err;
}
