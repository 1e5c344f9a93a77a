/*
 * Watches that come and go while the monitor runs, between two pumps. Each has a place among MONITOR_WATCHES,
 * which is given to another when it goes, and an id, which is not.
 */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/monitor/monitored.h"

#define SETTLE_NS 30000000ull /* so long what is under way has by itself */
#define FLUSH_NS 100000000ull /* and so long once it was hastened */
#define PUMP_ONE_NS 1000000ull

/* The request's texts, in memory that is ours */

static void change_measure(const char *text, size_t *sum)
{
	*sum += text ? strlen(text) + 1 : 0;
}

static const char *change_keep(const char *text, char **at)
{
	const char *kept = *at;

	if (!text)
		return NULL;
	*at = stpcpy(*at, text) + 1;
	return kept;
}

static bool copy_request(const struct watch_request *r, struct watch_request *ret, char **ret_texts)
{
	struct watch_request w = *r;
	size_t size = 1;
	unsigned int i;
	char *texts, *at;

	change_measure(r->expr, &size);
	change_measure(r->condition, &size);
	change_measure(r->thread, &size);
	for (i = 0; i < r->ncallers; i++)
		change_measure(r->callers[i], &size);
	for (i = 0; i < r->nnot_callers; i++)
		change_measure(r->not_callers[i], &size);
	texts = at = malloc(size);
	if (!texts)
		return false;
	w.expr = change_keep(r->expr, &at);
	w.condition = change_keep(r->condition, &at);
	w.thread = change_keep(r->thread, &at);
	for (i = 0; i < r->ncallers; i++)
		w.callers[i] = change_keep(r->callers[i], &at);
	for (i = 0; i < r->nnot_callers; i++)
		w.not_callers[i] = change_keep(r->not_callers[i], &at);
	*ret = w;
	*ret_texts = texts;
	return true;
}

/* Places */

static struct wc_error *find_place(const struct monitor *m, unsigned int *ret)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES && m->watch[i].used; i++)
		;
	*ret = i;
	return i < MONITOR_WATCHES
		       ? NULL
		       : wc_error_new(
				 WC_ESLOTS,
				 "a CPU has %u debug registers, so that at most %u variables can be watched at once, "
				 "and all are in use: remove one first",
				 MONITOR_WATCHES, MONITOR_WATCHES);
}

static struct wc_error *find_watch(const struct monitor *m, uint32_t id, unsigned int *ret)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++) {
		if (!m->watch[i].used || m->watch[i].id != id)
			continue;
		*ret = i;
		return NULL;
	}
	return wc_error_new(WC_ENAME, "there is no watch %u", id);
}

static void free_place(struct monitor *m, unsigned int i)
{
	struct monitored *w = &m->watch[i];

	variable_deinit(&w->variable);
	free(w->filter_text);
	free(w->texts);
	*w = (struct monitored){ 0 };
	m->options.watch[i] = (struct watch_request){ 0 };
}

/* Going */

/* The engine goes on with the others, as ever, until all hits of @id have come, or do not come. */
static struct wc_error *change_settle(struct monitor *m, uint32_t id)
{
	uint64_t end = monotonic_ns() + SETTLE_NS;
	struct wc_error *err = NULL;
	bool flushed = false;

	while (!err && !m->over && m->engine && m->ops->outstanding(m->engine, id)) {
		if (monotonic_ns() >= end && (flushed || !m->ops->flush))
			break;
		if (monotonic_ns() >= end) {
			m->ops->flush(m->engine);
			flushed = true;
			end = monotonic_ns() + FLUSH_NS;
		}
		err = monitor_pump(m, PUMP_ONE_NS);
	}
	return err;
}

/* Nothing of watch @i is armed any more, and what was hit until then has been delivered. */
static struct wc_error *disarm(struct monitor *m, unsigned int i)
{
	struct monitored *w = &m->watch[i];
	struct engine_counts c = { 0 };
	struct wc_error *err;

	monitor_look_last(m, i);
	w->disabled = true;
	if (!m->engine)
		return NULL;
	m->ops->disarm(m->engine, w->id);
	monitor_disarm_pointers(m, i);
	w->armed = false;
	if (!monitor_any_per_thread(m))
		monitor_unhook_threads(m);
	monitor_unhook_loader(m);
	err = change_settle(m, w->id);
	if (err || !m->engine)
		return err;
	m->ops->counts(m->engine, w->id, &c);
	return monitor_judge_last(m, i, &c);
}

/* What captures there are that came before its last accesses goes before its summary. */
static struct wc_error *poll_captures(struct monitor *m)
{
	enum tags_state unused;

	return m->timeline && m->tags ? monitor_collect_poll(m, &unused) : NULL;
}

static struct wc_error *end_watch(struct monitor *m, unsigned int i)
{
	struct wc_error *err = disarm(m, i);
	struct engine_counts c = { 0 };

	if (m->engine)
		err = wc_error_first(err, m->ops->finish(m->engine, m->watch[i].id, &c));
	if (!err)
		err = poll_captures(m);
	if (!err)
		err = monitor_report_summary(m, i, &c);
	free_place(m, i);
	return err;
}

struct wc_error *monitor_remove(struct monitor *m, uint32_t id)
{
	struct wc_error *err;
	unsigned int i = 0;

	err = find_watch(m, id, &i);
	return err ? err : end_watch(m, i);
}

/* Coming */

/* What can be wrong with the request is found out before anything is put into the program for it. */
static struct wc_error *open_engine_for(struct monitor *m, unsigned int i)
{
	struct wc_error *err;
	bool missing = false;

	if (m->engine)
		return NULL;
	if (!m->options.pending) {
		err = monitor_plan(m, i, &missing);
		if (err)
			return missing ? wc_error_hint(err, "with --pending, watchctl waits "
							    "until the program loads it")
				       : err;
	}
	return monitor_open_engine(m);
}

/* The hooks for new threads take what registers are left: they give way to a watch. */
static struct wc_error *arm_with_room(struct monitor *m, unsigned int i)
{
	struct wc_error *err = monitor_arm_later(m, i), *again;

	if (!err || err->kind != WC_ESLOTS || !m->thread_hooks)
		return err;
	monitor_unhook_threads(m);
	monitor_disarm_pointers(m, i);
	again = monitor_arm_later(m, i);
	if (again)
		wc_error_free(again);
	else
		wc_error_free(err);
	return wc_error_first(again ? err : NULL, monitor_hook_threads(m));
}

/* A child has what its parent had when it was forked; an engine that traces them all arms them all. */
static struct wc_error *report_children(struct monitor *m, unsigned int i)
{
	if (!m->options.follow_fork || m->ops->sees_births)
		return NULL;
	return monitor_note(m, "%s is not watched in children that were forked before this moment",
			    m->options.watch[i].expr);
}

static struct wc_error *arm_added(struct monitor *m, unsigned int i)
{
	bool had_engine = m->engine;
	struct wc_error *err = open_engine_for(m, i);

	if (!err)
		err = arm_with_room(m, i);
	if (!err && had_engine)
		err = report_children(m, i);
	if (!err)
		return NULL;
	wc_error_free(end_watch(m, i));
	if (had_engine || !m->engine)
		return err;
	wc_error_free(m->ops->stop(m->engine));
	wc_error_free(m->ops->close(m->engine));
	m->engine = NULL;
	monitor_forget_hooks(m);
	return err;
}

struct wc_error *monitor_add(struct monitor *m, const struct watch_request *w, uint32_t *ret)
{
	struct wc_error *err;
	uint32_t id = m->next_id;
	unsigned int i = 0;

	err = find_place(m, &i);
	if (err)
		return err;
	if (!copy_request(w, &m->options.watch[i], &m->watch[i].texts))
		return &wc_enomem;
	m->watch[i].used = true;
	m->watch[i].id = id;
	m->next_id++;
	err = arm_added(m, i);
	if (!err)
		*ret = id;
	return err;
}

/* For a while */

struct wc_error *monitor_enable(struct monitor *m, uint32_t id, bool on)
{
	struct wc_error *err;
	unsigned int i = 0;

	err = find_watch(m, id, &i);
	if (err || on != m->watch[i].disabled)
		return err;
	if (!on) {
		err = disarm(m, i);
		return err ? err : monitor_note(m, "%s (watch %u) is disabled", m->options.watch[i].expr, id);
	}
	m->watch[i].disabled = false;
	err = m->engine ? NULL : open_engine_for(m, i);
	if (!err)
		err = arm_with_room(m, i);
	if (!err)
		err = monitor_note(m, "%s (watch %u) is enabled again", m->options.watch[i].expr, id);
	if (!err)
		return report_children(m, i);
	wc_error_free(disarm(m, i));
	return err;
}
