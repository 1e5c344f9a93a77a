#include "watchctl/monitor/monitor.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/target/loader_hook.h"
#include "watchctl/monitor/monitored.h"
#include "watchctl/target/launch.h"
#include "watchctl/target/proc.h"
#include "watchctl/target/proc_words.h"
#include "watchctl/trace/event.h"

#define PUMP_MS 100
#define WAIT_NS 20000000ull /* without an engine */
#define TICK_NS 200000000ull

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

/*
 * Between engine and user: no more accesses and captures than were asked for. What comes too late counts as
 * filtered.
 */
static struct wc_error *forward(void *ctx, const struct trace_event *e)
{
	struct monitor *m = ctx;

	if (e->type == EVENT_ACCESS || e->type == EVENT_CAPTURE) {
		if (m->limit && m->forwarded >= m->limit)
			return NULL;
		m->forwarded++;
		if (e->type == EVENT_CAPTURE)
			m->captured++;
		else
			m->watch[e->access.watch].forwarded++;
	}
	return m->sink.put(m->sink.ctx, e);
}

/* Where two look at the modules, each is told once; and accesses and captures get one order. */
static struct wc_error *join(void *ctx, const struct trace_event *e)
{
	struct monitor *m = ctx;
	struct event_sink next = timeline_sink(m->timeline);
	bool ok = true;

	if (e->type == EVENT_PROCESS && e->process.pid == m->pid)
		told_modules_deinit(&m->modules);
	if ((e->type == EVENT_MODULE || e->type == EVENT_MODULE_GONE) &&
	    !told_modules_is_news(&m->modules, e, &ok))
		return NULL;
	return ok ? next.put(next.ctx, e) : &wc_enomem;
}

static bool lay_pipes(struct monitor *m)
{
	m->events = (struct event_sink){ forward, m };
	if (!m->options.tags || !m->options.nwatches)
		return true;
	m->timeline = timeline_new(m->events);
	m->events = (struct event_sink){ join, m };
	return m->timeline;
}

static struct wc_error *tell_process(struct monitor *m)
{
	struct trace_event e = { .type = EVENT_PROCESS };
	struct proc_words words;

	proc_words_read(m->pid, &words);
	e.process = (struct process_event){
		.pid = m->pid,
		.comm = words.comm,
		.exe = words.exe,
		.cmdline = words.cmdline,
		.realtime_ns = clock_ns(CLOCK_REALTIME),
		.host = words.host,
	};
	return monitor_put(m, &e);
}

static struct wc_error *hook_loader(struct monitor *m, uint64_t addr)
{
	struct watchpoint w = {
		.id = LOADER_HOOK, .addr = addr, .size = 1, .access = ACCESS_EXECUTE, .slot = -1, .hook = true
	};
	struct arm_report report;
	struct wc_error *err = m->ops->arm(m->engine, &w, &report);

	if (err)
		return wc_error_context(err, "one debug register is needed to see libraries being loaded");
	m->hooked = true;
	return NULL;
}

static bool all_armed(const struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < m->options.nwatches; i++)
		if (!m->watch[i].armed && !m->watch[i].gone && !m->watch[i].waits)
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

	for (i = 0; i < m->options.nwatches && !err; i++) {
		if (m->watch[i].armed || m->watch[i].waits)
			continue;
		why = monitor_plan(m, i, &missing);
		if (!why || !m->options.follow_exec || why->kind != WC_ENAME) {
			err = why;
			continue;
		}
		err = monitor_note(m, "not in this program; the next one that it executes may have it: %s",
				   why->text);
		wc_error_free(why);
	}
	if (!err || m->launched || m->options.pending)
		return err;
	return wc_error_hint(err, "with --pending, watchctl waits until the program loads it");
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
	if (err || (!missing && !(m->launched && monitor_any_per_thread(m))))
		return err;
	if (hook && (starting || m->options.pending))
		return hook_loader(m, hook);
	return missing ? give_up_missing(m) : NULL;
}

/* The loader has mapped something: its thread waits for us. */
static struct wc_error *on_loader(struct monitor *m)
{
	struct wc_error *err;
	bool missing;

	err = monitor_arm_all(m, m->launched && !m->started && !loader_hook_startup_done(m->pid), &missing);
	if (err && m->started) {
		/* The program runs: a name that a new library makes ambiguous must not end the other watches.
		 */
		struct wc_error *note = monitor_note(m, "%s", err->text);

		wc_error_free(err);
		err = note;
	}
	if (!err)
		err = monitor_extend(m); /* the first thread has its thread pointer by now */
	if (!err && loader_hook_startup_done(m->pid))
		m->started = true;
	if (!err && all_armed(m) && (m->started || !monitor_any_per_thread(m))) {
		m->ops->disarm(m->engine, LOADER_HOOK);
		m->hooked = false;
		if (monitor_any_per_thread(m))
			err = monitor_hook_threads(m);
	}
	return err;
}

static struct wc_error *on_hook(struct monitor *m)
{
	struct engine_hook hook = { 0 };

	m->ops->hooked(m->engine, &hook);
	if (hook.id >= POINTER_HOOK)
		return monitor_follow(m, (hook.id - POINTER_HOOK) / LOCATE_POINTERS);
	if (hook.id >= THREAD_HOOK)
		return monitor_extend(m);
	return on_loader(m);
}

/* A program that we started, and that has not run a line of its own: it goes with our error. */
static void drop_child(struct monitor *m)
{
	if (!m->launched || m->wait_status >= 0)
		return;
	kill(m->pid, SIGKILL);
	while (waitpid(m->pid, &m->wait_status, __WALL) == m->pid && WIFSTOPPED(m->wait_status))
		;
}

static struct wc_error *open_engine(struct monitor *m)
{
	struct engine_options o = {
		.frames = m->options.frames,
		.buffer_size = m->options.buffer_size,
		.private_ring = m->options.private_ring,
		.say = m->options.say,
		.say_ctx = m->options.say_ctx,
		.held = m->launched && m->held.tid ? &m->held : NULL,
		.follow_fork = m->options.follow_fork,
		.follow_exec = m->options.follow_exec,
	};

	return m->ops->open(m->pid, &o, m->events, &m->engine);
}

static struct wc_error *open_watches(struct monitor *m)
{
	struct wc_error *err;

	if (!m->options.nwatches)
		return NULL;
	err = open_engine(m);
	return err ? err : arm_first(m);
}

static void free_monitor(struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++) {
		variable_deinit(&m->watch[i].variable);
		free(m->watch[i].filter_text);
	}
	locator_free(m->locator);
	tags_free(m->tags);
	tag_table_deinit(&m->tag_table);
	timeline_free(m->timeline);
	told_modules_deinit(&m->modules);
	closep(&m->pidfd);
	free(m);
}

static struct wc_error *open_target(struct monitor *m)
{
	struct wc_error *err;

	if (!m->options.argv) {
		m->pid = m->options.pid;
		return proc_check(m->pid);
	}
	err = launch_start(m->options.argv, &m->held);
	if (err)
		return err;
	m->launched = true;
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

struct wc_error *monitor_open(const struct monitor_options *o, struct event_sink sink, struct monitor **ret)
{
	struct monitor *m = calloc(1, sizeof(*m));
	struct wc_error *err;

	if (!m)
		return &wc_enomem;
	m->options = *o;
	m->sink = sink;
	m->wait_status = -1;
	m->pidfd = -1;
	m->tag_counts.has_counted = true;
	m->locator = locator_new();
	err = m->locator && lay_pipes(m) ? open_target(m) : &wc_enomem;
	if (!err)
		err = check_requests(m);
	if (!err)
		err = monitor_check_library(m);
	if (!err && m->options.nwatches)
		err = monitor_choose(m);
	if (!err)
		err = tell_process(m);
	if (!err)
		err = open_watches(m);
	if (!err)
		err = monitor_collect(m);
	if (err) {
		if (m->tags)
			wc_error_free(tags_stop(m->tags));
		drop_child(m);
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

static void reap(struct monitor *m)
{
	int status;

	if (m->launched && m->wait_status < 0 && waitpid(m->pid, &status, WNOHANG) == m->pid)
		m->wait_status = status;
}

static void add_counts(struct engine_counts *sum, const struct engine_counts *c)
{
	sum->has_counted |= c->has_counted;
	sum->counted += c->counted;
	sum->recorded += c->recorded;
	sum->filtered += c->filtered;
	sum->lost_full += c->lost_full;
	sum->lost_merged += c->lost_merged;
	sum->replaced |= c->replaced;
}

/* Nothing is armed any more: the program that had the variables is gone. What was counted stays. */
static struct wc_error *forget_program(struct monitor *m)
{
	struct engine_counts c;
	struct wc_error *err;
	unsigned int i;

	for (i = 0; i < m->options.nwatches; i++) {
		struct monitored *w = &m->watch[i];

		if (!m->ops->follows_exec && w->armed) {
			m->ops->counts(m->engine, i, &c);
			add_counts(&w->past, &c);
		}
		variable_deinit(&w->variable);
		memset(w->pointer, 0, sizeof(w->pointer));
		w->armed = w->waits = w->follows = false;
		w->thread_address = 0;
	}
	m->hooked = m->started = false;
	m->thread_hooks = 0;
	locator_free(m->locator);
	m->locator = locator_new();
	if (!m->locator)
		return &wc_enomem;
	if (m->ops->follows_exec)
		return NULL;
	err = m->ops->close(m->engine);
	m->engine = NULL;
	return err;
}

/* --exec follow: the same names in the program that the process runs now. */
static struct wc_error *follow_exec(struct monitor *m)
{
	struct wc_error *err = m->engine ? m->ops->stop(m->engine) : NULL;
	bool lives_on = m->engine && m->ops->follows_exec;

	if (!err)
		err = monitor_collect_stop(m);
	if (!err && m->timeline)
		err = timeline_release(m->timeline, UINT64_MAX);
	if (!err && m->engine)
		err = forget_program(m);
	if (!err && m->options.nwatches && !lives_on)
		err = monitor_choose(m);
	if (!err)
		err = tell_process(m);
	if (!err && m->options.nwatches && !lives_on)
		err = open_engine(m);
	if (!err)
		err = monitor_note(
			m, lives_on ? "the process has executed another program: the watch goes on in it"
				    : "the process has executed another program: the watch goes on in it; "
				      "what it "
				      "accessed in its first moments, before this was noticed, is not seen");
	if (!err && m->options.nwatches)
		err = arm_first(m);
	return err ? err : monitor_collect(m);
}

static struct wc_error *after_pump(struct monitor *m, enum pump_result r, bool *ret_over,
				   enum monitor_end *ret)
{
	*ret_over = true;
	switch (r) {
	case PUMP_HOOK: {
		struct wc_error *err = on_hook(m);

		*ret_over = false;
		if (err)
			drop_child(m);
		return err;
	}
	case PUMP_EXITED:
		*ret = MONITOR_EXITED;
		return NULL;
	case PUMP_EXECED:
		if (m->options.follow_exec) {
			*ret_over = false;
			return follow_exec(m);
		}
		*ret = MONITOR_EXECED;
		return monitor_note(
			m, m->options.nwatches
				   ? "the process has executed another program: its variables are gone, the "
				     "watch has ended"
				   : "the process has executed another program: the collection has ended");
	case PUMP_ENDED:
		*ret = MONITOR_GAVE_UP;
		return monitor_note(m, "%s", m->ops->why(m->engine));
	case PUMP_IDLE:
		break;
	}
	*ret_over = false;
	return NULL;
}

static bool limits_reached(const struct monitor *m, const struct monitor_limits *l, uint64_t start_ns,
			   enum monitor_end *ret)
{
	if (l->stop && *l->stop)
		*ret = MONITOR_STOPPED;
	else if (l->count && m->forwarded >= l->count)
		*ret = MONITOR_COUNT;
	else if (l->time_ns && monotonic_ns() - start_ns >= l->time_ns)
		*ret = MONITOR_TIME;
	else
		return false;
	return true;
}

/* The captures, beside what the engine pumps; or without one. */
static struct wc_error *pump_captures(struct monitor *m, enum pump_result *r, bool *ret_over,
				      enum monitor_end *ret)
{
	enum tags_state state;
	struct wc_error *err = monitor_collect_poll(m, &state);

	if (err || state == TAGS_RUN)
		return err;
	if (state == TAGS_SUPPLANTED) {
		err = monitor_note(m, "another process has begun to collect the captures: ours end here");
		if (!err)
			err = monitor_collect_stop(m);
		*ret_over = !m->engine;
		*ret = MONITOR_SUPPLANTED;
		return err;
	}
	if (!m->engine)
		*r = monitor_how_it_ended(m);
	else if (*r != PUMP_EXECED) /* the engine will tell which */
		m->tags_wait_ns = WAIT_NS;
	return NULL;
}

static int pump_timeout(const struct monitor *m, const struct monitor_limits *l)
{
	int ms = l->count || l->time_ns ? PUMP_MS / 10 : PUMP_MS;

	return m->tags && m->tags_wait_ns / 1000000 < (uint64_t)ms ? (int)(m->tags_wait_ns / 1000000) : ms;
}

static struct wc_error *pump(struct monitor *m, const struct monitor_limits *l, bool *ret_over,
			     enum monitor_end *ret)
{
	enum pump_result r = PUMP_IDLE;
	struct wc_error *err = NULL;

	if (m->engine)
		err = m->ops->pump(m->engine, pump_timeout(m, l), &r);
	else
		monitor_wait(m, l->count || l->time_ns ? PUMP_MS / 10 * 1000000ull : WAIT_NS);
	if (!err && m->tags)
		err = pump_captures(m, &r, ret_over, ret);
	return err || *ret_over ? err : after_pump(m, r, ret_over, ret);
}

struct wc_error *monitor_run(struct monitor *m, const struct monitor_limits *l, enum monitor_end *ret)
{
	uint64_t start = monotonic_ns(), ticked = start;
	bool over = false;

	m->limit = l->count;
	while (!limits_reached(m, l, start, ret)) {
		struct wc_error *err = pump(m, l, &over, ret);
		uint64_t now = monotonic_ns();

		if (!err && !over && monotonic_ns() - m->extended_ns > EXTEND_NS)
			err = monitor_extend(m);
		if (!err && l->tick && now - ticked > TICK_NS) {
			ticked = now;
			err = l->tick(l->tick_ctx);
		}
		if (err)
			return err;
		if (over)
			break;
		reap(m);
	}
	return NULL;
}

static struct wc_error *tell_lost(struct monitor *m, uint32_t watch, uint64_t count, const char *why_lost)
{
	struct trace_event e = { .type = EVENT_LOST,
				 .lost = { .watch = watch, .count = count, .why = why_lost } };

	return count ? monitor_put(m, &e) : NULL;
}

static struct wc_error *tell_summary(struct monitor *m, unsigned int i)
{
	struct trace_event e = { .type = EVENT_SUMMARY };
	struct engine_counts c;
	struct wc_error *err;

	if (!m->watch[i].told)
		return NULL;
	m->ops->counts(m->engine, i, &c);
	add_counts(&c, &m->watch[i].past);
	err = tell_lost(m, i, c.lost_full, "the event buffer was full");
	if (!err)
		err = tell_lost(m, i, c.lost_merged,
				c.replaced ? "the program had replaced our SIGTRAP handler"
					   : "merged by the kernel with a hit not yet delivered");
	if (err)
		return err;
	e.summary = (struct summary_event){
		.watch = i,
		.has_counted = c.has_counted,
		.counted = c.counted,
		.recorded = m->watch[i].forwarded,
		.lost = c.lost_full + c.lost_merged,
		.filtered = c.filtered + (c.recorded - m->watch[i].forwarded),
		.duration_ns = monotonic_ns() - m->watch[i].armed_ns,
	};
	return monitor_put(m, &e);
}

static struct wc_error *finish(struct monitor *m)
{
	struct wc_error *err = m->engine ? m->ops->stop(m->engine) : NULL;
	unsigned int i;

	/* Whatever went wrong, the program is not left with captures that nobody collects. */
	err = wc_error_first(err, monitor_collect_stop(m));
	if (!err && m->timeline)
		err = timeline_release(m->timeline, UINT64_MAX);
	for (i = 0; i < m->options.nwatches && !err && m->engine; i++)
		err = tell_summary(m, i);
	return err ? err : monitor_collect_summary(m);
}

struct wc_error *monitor_close(struct monitor *m)
{
	struct wc_error *err, *close_err;

	if (!m)
		return NULL;
	err = finish(m);
	close_err = m->engine ? m->ops->close(m->engine) : NULL;
	reap(m);
	free_monitor(m);
	return wc_error_first(err, close_err);
}

const char *monitor_never_armed(const struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < m->options.nwatches; i++)
		if (!m->watch[i].told && !m->watch[i].waits)
			return m->options.watch[i].expr;
	return NULL;
}

bool monitor_never_collected(const struct monitor *m)
{
	return m->options.tags && !m->collected_ns;
}
