#include "watchctl/monitor/monitor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/code/lookup/locator.h"
#include "watchctl/monitor/monitored.h"
#include "watchctl/session/process_event.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/target/proc/process_fd.h"
#include "watchctl/target/stop/launch.h"
#include "watchctl/trace/event.h"
#include "watchctl/trace/tags/tag_table.h"

struct wc_error *monitor_put(struct monitor *m, struct trace_event *e)
{
	if (!e->time_ns)
		e->time_ns = monotonic_ns();
	return m->events.put(m->events.ctx, e);
}

struct wc_error *monitor_note(struct monitor *m, const char *fmt, ...)
{
	struct trace_event e = { .type = EVENT_NOTE };
	scoped(freep) char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	if (!text)
		return &wc_enomem;
	e.note.text = text;
	return monitor_put(m, &e);
}

static void count_forwarded(struct monitor *m, uint32_t id)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		m->watch[i].forwarded += m->watch[i].used && m->watch[i].id == id;
}

/*
 * Between engine and user: no more accesses and captures than were asked for. What comes too late counts as
 * filtered.
 */
static struct wc_error *forward(void *ctx, const struct trace_event *e)
{
	struct monitor *m = ctx;
	struct trace_event corrected;

	if (e->type == EVENT_ACCESS)
		e = monitor_see_access(m, e, &corrected);
	if (e->type == EVENT_ACCESS || e->type == EVENT_CAPTURE) {
		if (m->limit && m->forwarded >= m->limit)
			return NULL;
		m->forwarded++;
		if (e->type == EVENT_CAPTURE)
			m->captured++;
		else
			count_forwarded(m, e->access.watch);
	}
	return m->sink.put(m->sink.ctx, e);
}

/* Where two look at the modules, each is reported once; and accesses and captures get one order. */
static struct wc_error *monitor_join(void *ctx, const struct trace_event *e)
{
	struct monitor *m = ctx;
	struct event_sink next = timeline_sink(m->timeline);
	bool ok = true;

	if (e->type == EVENT_PROCESS && e->process.pid == m->pid)
		reported_modules_deinit(&m->modules);
	if ((e->type == EVENT_MODULE || e->type == EVENT_MODULE_GONE) &&
	    !reported_modules_is_news(&m->modules, e, &ok))
		return NULL;
	return ok ? next.put(next.ctx, e) : &wc_enomem;
}

static bool lay_pipes(struct monitor *m)
{
	m->events = (struct event_sink){ forward, m };
	if (!m->options.tags || !(m->options.nwatches || m->options.may_add))
		return true;
	m->timeline = timeline_new(m->events);
	m->events = (struct event_sink){ monitor_join, m };
	return m->timeline;
}

void monitor_drop_child(struct monitor *m)
{
	if (!m->launched || m->wait_status >= 0)
		return;
	kill(m->pid, SIGKILL);
	while (waitpid(m->pid, &m->wait_status, __WALL) == m->pid && WIFSTOPPED(m->wait_status))
		;
}

/* What to ask about the process while there is nothing else to ask. */
static struct wc_error *look_after(struct monitor *m)
{
	if (!m->options.may_add)
		return NULL;
	exec_watch_open(&m->exec, m->pid); /* not permitted: then an exec shows at the next watch alone */
	return process_fd_open(m->pid, &m->pidfd);
}

static struct wc_error *open_watches(struct monitor *m)
{
	struct wc_error *err;

	if (!m->options.nwatches)
		return NULL;
	err = monitor_open_engine(m);
	return err ? err : monitor_arm_first(m);
}

static void free_monitor(struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++) {
		variable_deinit(&m->watch[i].variable);
		free(m->watch[i].filter_text);
		free(m->watch[i].texts);
	}
	locator_free(m->locator);
	tags_free(m->tags);
	tag_table_deinit(&m->tag_table);
	timeline_free(m->timeline);
	reported_modules_deinit(&m->modules);
	closep(&m->pidfd);
	exec_watch_close(&m->exec);
	free(m);
}

static struct wc_error *open_target(struct monitor *m)
{
	struct wc_error *err;

	if (!m->options.argv) {
		m->pid = m->options.pid;
		if (m->options.held) {
			m->held = *m->options.held; /* ours from now on */
			*m->options.held = (struct tracee){ 0 };
			m->launched = true;
		}
		return proc_check(m->pid);
	}
	err = launch_start(m->options.argv, LAUNCH_RANDOM, &m->held);
	if (err)
		return err;
	m->launched = m->begins = true;
	m->pid = m->held.pid;
	return proc_check(m->pid);
}

/* What can be wrong with a request is found out before anything is put into a running program. */
static struct wc_error *check_requests(struct monitor *m)
{
	struct wc_error *err = NULL;
	unsigned int i;

	if (m->launched || m->options.pending || m->options.follow_exec)
		return NULL;
	for (i = 0; i < m->options.nwatches && !err; i++) {
		bool missing = false;

		err = monitor_plan(m, i, &missing);
		if (err && missing)
			err = wc_error_hint(err, "with --pending, watchctl waits until the program loads it");
	}
	return err;
}

/* Whatever failed did so because there is no such program any more. */
static struct wc_error *look_for_exec(const struct monitor *m, struct wc_error *err)
{
	struct wc_error *gone;
	bool execed;

	if (m->launched || err->kind == WC_ETARGET || err == &wc_enomem)
		return err;
	execed = proc_has_execed(m->pid, m->stack_start);
	gone = proc_check(m->pid);
	if (gone && gone->kind == WC_ETARGET) {
		wc_error_free(err);
		return gone;
	}
	wc_error_free(gone);
	if (!execed)
		return err;
	err = wc_error_context(err, "process %d has executed another program meanwhile", m->pid);
	if (err != &wc_enomem)
		err->kind = WC_ETARGET;
	return err;
}

struct wc_error *monitor_open(const struct monitor_options *o, struct event_sink sink, struct monitor **ret)
{
	struct monitor *m = calloc(1, sizeof(*m));
	struct wc_error *err;

	if (!m)
		return &wc_enomem;
	m->options = *o;
	m->sink = sink;
	m->wait_status = -1;
	m->pidfd = m->exec.fd = -1;
	for (; m->next_id < o->nwatches; m->next_id++) {
		m->watch[m->next_id].used = true;
		m->watch[m->next_id].id = m->next_id;
	}
	m->tag_counts.has_counted = true;
	m->locator = locator_new();
	err = m->locator && lay_pipes(m) ? open_target(m) : &wc_enomem;
	if (!err) {
		m->stack_start = proc_stack_start(m->pid);
		err = check_requests(m);
	}
	if (!err)
		err = monitor_check_library(m);
	if (!err)
		err = process_event_put(m->pid, m->events);
	if (!err)
		err = look_after(m);
	if (!err)
		err = open_watches(m);
	if (!err)
		err = monitor_collect(m);
	if (err) {
		err = look_for_exec(m, err);
		if (m->tags)
			wc_error_free(tags_stop(m->tags));
		monitor_drop_child(m);
		if (m->engine)
			wc_error_free(m->ops->close(m->engine));
		free_monitor(m);
		return err;
	}
	if (m->held.tid)
		tracee_release(&m->held);
	*ret = m;
	return NULL;
}

void monitor_reap(struct monitor *m)
{
	int status;

	if (m->launched && m->wait_status < 0 && waitpid(m->pid, &status, WNOHANG) == m->pid)
		m->wait_status = status;
}

bool monitor_has_watches(const struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		if (m->watch[i].used)
			return true;
	return false;
}

static struct wc_error *monitor_finish(struct monitor *m)
{
	struct wc_error *err;
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		monitor_look_last(m, i);
	err = m->engine ? m->ops->stop(m->engine) : NULL;

	/* Whatever went wrong, the program is not left with captures that nobody collects. */
	err = wc_error_first(err, monitor_collect_stop(m));
	if (!err && m->timeline)
		err = timeline_release(m->timeline, UINT64_MAX);
	for (i = 0; i < MONITOR_WATCHES && !err; i++) {
		struct engine_counts c = { 0 };

		if (!m->watch[i].used)
			continue;
		if (m->engine)
			m->ops->counts(m->engine, m->watch[i].id, &c);
		err = monitor_judge_last(m, i, &c);
		if (!err)
			err = monitor_report_summary(m, i, &c);
	}
	return err ? err : monitor_collect_summary(m);
}

struct wc_error *monitor_close(struct monitor *m)
{
	struct wc_error *err, *close_err;

	if (!m)
		return NULL;
	err = monitor_finish(m);
	close_err = m->engine ? m->ops->close(m->engine) : NULL;
	close_err = wc_error_first(m->left, close_err);
	monitor_reap(m);
	free_monitor(m);
	return wc_error_first(err, close_err);
}

const char *monitor_never_armed(const struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		if (m->watch[i].used && !m->watch[i].reported && !m->watch[i].waits)
			return m->options.watch[i].expr;
	return NULL;
}

bool monitor_failed_at_start(const struct monitor *m)
{
	return m->launched && m->hooked && !m->started && !m->executed && !m->forwarded;
}

bool monitor_never_collected(const struct monitor *m)
{
	return m->options.tags && !m->collected_ns;
}

pid_t monitor_pid(const struct monitor *m)
{
	return m->pid;
}
