/* --exec follow: from one program of the process to the next. */
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/monitor/monitored.h"
#include "watchctl/session/process_event.h"

void monitor_keep_counts(struct monitor *m)
{
	struct engine_counts c;
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++) {
		struct monitored *w = &m->watch[i];

		if (!w->used || !w->reported)
			continue;
		m->ops->counts(m->engine, w->id, &c);
		monitor_add_counts(&w->past, &c);
	}
}

void monitor_forget_hooks(struct monitor *m)
{
	m->hooked = m->starts.hooked = m->copies.hooked = false;
	m->thread_hooks = 0;
}

void monitor_forget_armed(struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++) {
		struct monitored *w = &m->watch[i];

		if (!w->used)
			continue;
		variable_deinit(&w->variable);
		memset(w->pointer, 0, sizeof(w->pointer));
		w->armed = w->waits = w->follows = w->tested = false;
		w->thread_address = 0;
	}
	monitor_forget_hooks(m);
}

/* The program that had the variables is gone. */
static struct wc_error *forget_program(struct monitor *m)
{
	struct wc_error *err;

	if (!m->ops->follows_exec)
		monitor_keep_counts(m);
	monitor_forget_armed(m);
	m->executed = true;
	m->started = m->starts.known = m->copies.known = false;
	m->begins = m->launched || m->ops->follows_exec;
	if (m->ops->follows_exec)
		return NULL;
	err = m->ops->close(m->engine);
	m->engine = NULL;
	return err;
}

static struct wc_error *renew_locator(struct monitor *m)
{
	locator_free(m->locator);
	m->locator = locator_new();
	return m->locator ? NULL : &wc_enomem;
}

static struct wc_error *report_goes_on(struct monitor *m, bool lives_on)
{
	if (!monitor_has_watches(m))
		return monitor_note(m, "the process has executed another program");
	return monitor_note(
		m,
		lives_on
			? "the process has executed another program: the watch continues in it"
			: "the process has executed another program: the watch continues in it; accesses before "
			  "watchctl noticed this are not seen");
}

struct wc_error *monitor_follow_exec(struct monitor *m)
{
	struct wc_error *err = m->engine ? m->ops->stop(m->engine) : NULL;
	bool lives_on = m->engine && m->ops->follows_exec;
	bool watches = monitor_has_watches(m);

	if (!err)
		err = monitor_collect_stop(m);
	if (!err && m->timeline)
		err = timeline_release(m->timeline, UINT64_MAX);
	if (!err && m->engine)
		err = forget_program(m);
	if (!err)
		err = renew_locator(m);
	if (!err)
		err = process_event_put(m->pid, m->events);
	if (!err && watches && !lives_on)
		err = monitor_open_engine(m);
	if (!err)
		err = report_goes_on(m, lives_on);
	if (!err && watches)
		err = monitor_arm_first(m);
	if (m->options.may_add) {
		exec_watch_close(&m->exec);
		exec_watch_open(&m->exec, m->pid);
	}
	return err ? err : monitor_collect(m);
}
