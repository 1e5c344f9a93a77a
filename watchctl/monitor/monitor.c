#include "watchctl/monitor/monitor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "stackwalk/locate.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/engine/dregs.h"
#include "watchctl/engine/engine.h"
#include "watchctl/monitor/loader_hook.h"
#include "watchctl/target/launch.h"
#include "watchctl/target/proc.h"
#include "watchctl/trace/event.h"

#define PUMP_MS 100
#define TICK_NS 200000000ull
#define HOOK_ID 1000u

struct monitored {
	bool armed, gone;
	struct variable variable;
	uint64_t forwarded; /* accesses given to the sink */
	uint64_t armed_ns;
};

struct monitor {
	struct monitor_options options;
	struct event_sink sink;
	const struct engine_ops *ops;
	struct engine *engine;
	struct locator *locator;
	struct tracee held;
	struct monitored watch[MONITOR_WATCHES];
	pid_t pid;
	bool launched, hooked, started;
	int wait_status;
	uint64_t limit, forwarded;
	bool ended;
};

static struct wc_error *put(struct monitor *m, struct trace_event *e)
{
	if (!e->time_ns)
		e->time_ns = monotonic_ns();
	return m->sink.put(m->sink.ctx, e);
}

static struct wc_error *put_note(struct monitor *m, const char *text)
{
	struct trace_event e = { .type = EVENT_NOTE, .note = { .text = text } };

	return put(m, &e);
}

/* Between engine and user: no more accesses than were asked for. What comes too late counts as filtered. */
static struct wc_error *forward(void *ctx, const struct trace_event *e)
{
	struct monitor *m = ctx;

	if (e->type == EVENT_ACCESS) {
		if (m->limit && m->forwarded >= m->limit)
			return NULL;
		m->forwarded++;
		m->watch[e->access.watch].forwarded++;
	}
	return m->sink.put(m->sink.ctx, e);
}

static size_t read_proc_file(pid_t pid, const char *name, char *buf, size_t len)
{
	char path[64];
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	scoped(fclosep) FILE *f = fopen(path, "re");
	n = f ? fread(buf, 1, len - 1, f) : 0;
	buf[n] = '\0';
	return n;
}

static struct wc_error *tell_process(struct monitor *m)
{
	struct trace_event e = { .type = EVENT_PROCESS };
	char comm[64], cmdline[4096], exe[4096], path[64], host[256] = "";
	size_t i, n;
	ssize_t len;

	read_proc_file(m->pid, "comm", comm, sizeof(comm));
	comm[strcspn(comm, "\n")] = '\0';
	n = read_proc_file(m->pid, "cmdline", cmdline, sizeof(cmdline));
	for (i = 0; i + 1 < n; i++)
		if (!cmdline[i])
			cmdline[i] = ' ';
	snprintf(path, sizeof(path), "/proc/%d/exe", m->pid);
	len = readlink(path, exe, sizeof(exe) - 1);
	exe[len > 0 ? len : 0] = '\0';
	gethostname(host, sizeof(host) - 1);
	e.process = (struct process_event){
		.pid = m->pid,
		.comm = comm,
		.exe = exe,
		.cmdline = cmdline,
		.realtime_ns = clock_ns(CLOCK_REALTIME),
		.host = host,
	};
	return put(m, &e);
}

static struct wc_error *wrong_size(const struct watch_request *r, const struct variable *v)
{
	if (!v->size)
		return wc_error_new(WC_EUSAGE, "the size of %s is not known: choose it with -s 1, 2, 4 or 8",
				    r->expr);
	if (v->members)
		return wc_error_new(
			WC_EUSAGE,
			"%s is %llu bytes long, and a debug register watches 1, 2, 4 or 8: name a part of it "
			"(%s), or choose the first bytes with -s 8",
			r->expr, (unsigned long long)v->size, v->members);
	return wc_error_new(
		WC_EUSAGE,
		"%s is %llu bytes long, and a debug register watches 1, 2, 4 or 8: choose how many with -s",
		r->expr, (unsigned long long)v->size);
}

static struct wc_error *choose_size(const struct watch_request *r, const struct variable *v, uint32_t *ret)
{
	uint64_t size = r->size ? r->size : v->size;

	if (r->access == ACCESS_EXECUTE)
		size = 1;
	if (size != 1 && size != 2 && size != 4 && size != 8)
		return wrong_size(r, v);
	if (!dregs_fits(v->addr, size))
		return wc_error_new(WC_EUSAGE,
				    "%s is at 0x%llx, which is not a multiple of %llu: a debug register "
				    "watches 1, 2, 4 or "
				    "8 bytes, aligned to their number; choose fewer with -s",
				    r->expr, (unsigned long long)v->addr, (unsigned long long)size);
	*ret = (uint32_t)size;
	return NULL;
}

static struct wc_error *tell_watch(struct monitor *m, unsigned int i, uint32_t size,
				   const struct arm_report *report)
{
	const struct watch_request *r = &m->options.watch[i];
	const struct variable *v = &m->watch[i].variable;
	struct trace_event e = { .type = EVENT_WATCH };

	e.watch = (struct watch_event){
		.id = i,
		.name = r->expr,
		.full_name = v->name ? v->name : r->expr,
		.addr = v->addr,
		.size = size,
		.access = r->access,
		.engine = m->ops->name,
		.module = v->module,
		.type = v->type,
		.threads = report->threads,
		.threads_armed = report->threads_armed,
		.verified = report->verified,
		.kernel = report->kernel,
		.has_value = report->has_value,
		.value = report->value,
		.slot = r->slot,
	};
	if (size != v->size) /* part of the object: its type says nothing about these bytes */
		e.watch.type = (struct value_type){ .kind = VALUE_UNKNOWN, .name = v->type.name };
	return put(m, &e);
}

static struct wc_error *arm_variable(struct monitor *m, unsigned int i)
{
	const struct watch_request *r = &m->options.watch[i];
	const struct variable *v = &m->watch[i].variable;
	struct watchpoint w = {
		.id = i, .addr = v->addr, .access = (enum access_kind)r->access, .slot = r->slot
	};
	struct arm_report report = { 0 };
	struct wc_error *err = choose_size(r, v, &w.size);

	if (!err)
		err = m->ops->arm(m->engine, &w, &report);
	if (err)
		return err;
	m->watch[i].armed = true;
	m->watch[i].armed_ns = monotonic_ns();
	return tell_watch(m, i, w.size, &report);
}

/* Finds and arms request @i. *missing: it is not there yet, but may come with a library. */
static struct wc_error *arm_request(struct monitor *m, unsigned int i, bool *missing)
{
	struct memory_view mem = proc_memory(&m->pid);
	struct module_list modules = { 0 };
	struct wc_error *err = module_list_read(m->pid, &modules);

	*missing = false;
	if (!err)
		err = locate(m->locator, m->options.watch[i].expr, &modules, &mem, &m->watch[i].variable,
			     missing);
	if (!err)
		err = arm_variable(m, i);
	module_list_deinit(&modules);
	return err;
}

static struct wc_error *hook_loader(struct monitor *m, uint64_t addr)
{
	struct watchpoint w = {
		.id = HOOK_ID, .addr = addr, .size = 1, .access = ACCESS_EXECUTE, .slot = -1, .hook = true
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
		if (!m->watch[i].armed && !m->watch[i].gone)
			return false;
	return true;
}

/*
 * Arms what can be armed now. What is missing waits for the loader where it may still come: a library
 * that the user named, and, before a launched program's libraries are mapped, any name.
 */
static struct wc_error *arm_all(struct monitor *m, bool any_name_may_come, bool *ret_missing)
{
	unsigned int i;

	*ret_missing = false;
	for (i = 0; i < m->options.nwatches; i++) {
		struct wc_error *err;
		bool missing;

		if (m->watch[i].armed || m->watch[i].gone)
			continue;
		err = arm_request(m, i, &missing);
		if (!err)
			continue;
		if (err->kind != WC_ENAME || !(missing || any_name_may_come))
			return err;
		wc_error_free(err);
		*ret_missing = true;
	}
	return NULL;
}

static struct wc_error *arm_first(struct monitor *m)
{
	bool may_wait = m->launched || m->options.pending, missing = false;
	struct module_list modules = { 0 };
	struct wc_error *err = module_list_read(m->pid, &modules);
	uint64_t hook = err || !may_wait ? 0 : loader_hook_address(m->pid, &modules);

	module_list_deinit(&modules);
	if (!err)
		err = arm_all(m, m->launched && hook, &missing);
	if (err || !missing)
		return err;
	if (may_wait && hook)
		return hook_loader(m, hook);
	/* Nobody can bring it any more: say what is wrong with it. */
	for (unsigned int i = 0; i < m->options.nwatches && !err; i++)
		if (!m->watch[i].armed)
			err = arm_request(m, i, &missing);
	if (!err || m->launched || m->options.pending)
		return err;
	return wc_error_hint(err, "with --pending, watchctl waits until the program loads it");
}

/* The loader has mapped something: its thread waits for us. */
static struct wc_error *on_hook(struct monitor *m)
{
	struct wc_error *err;
	bool missing;

	err = arm_all(m, m->launched && !m->started && !loader_hook_startup_done(m->pid), &missing);
	if (err && m->started) {
		/* The program runs: a name that a new library makes ambiguous must not end the other watches.
		 */
		struct wc_error *note = put_note(m, err->text);

		wc_error_free(err);
		err = note;
	}
	if (!err && loader_hook_startup_done(m->pid))
		m->started = true;
	if (!err && all_armed(m)) {
		m->ops->disarm(m->engine, HOOK_ID);
		m->hooked = false;
	}
	return err;
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
		.held = m->launched ? &m->held : NULL,
	};

	return m->ops->open(m->pid, &o, (struct event_sink){ forward, m }, &m->engine);
}

static void free_monitor(struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		variable_deinit(&m->watch[i].variable);
	locator_free(m->locator);
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

/* What can be wrong with the names is found out before anything is put into a running program. */
static struct wc_error *check_names(struct monitor *m)
{
	struct memory_view mem = proc_memory(&m->pid);
	struct module_list modules = { 0 };
	struct wc_error *err = NULL;
	unsigned int i;

	if (m->launched || m->options.pending)
		return NULL;
	err = module_list_read(m->pid, &modules);
	for (i = 0; i < m->options.nwatches && !err; i++) {
		struct variable v = { 0 };
		bool missing = false;
		uint32_t size;

		err = locate(m->locator, m->options.watch[i].expr, &modules, &mem, &v, &missing);
		if (!err)
			err = choose_size(&m->options.watch[i], &v, &size);
		else if (missing)
			err = wc_error_hint(err, "with --pending, watchctl waits until the program loads it");
		variable_deinit(&v);
	}
	module_list_deinit(&modules);
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
	m->ops = &engine_handler;
	m->wait_status = -1;
	m->locator = locator_new();
	err = m->locator ? open_target(m) : &wc_enomem;
	if (!err)
		err = check_names(m);
	if (!err)
		err = tell_process(m);
	if (!err)
		err = open_engine(m);
	if (!err)
		err = arm_first(m);
	if (err) {
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
		*ret = MONITOR_EXECED;
		return put_note(
			m, "the process has executed another program: its variables are gone, the watch has "
			   "ended");
	case PUMP_ENDED:
		*ret = MONITOR_GAVE_UP;
		return put_note(m, m->ops->why(m->engine));
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

struct wc_error *monitor_run(struct monitor *m, const struct monitor_limits *l, enum monitor_end *ret)
{
	uint64_t start = monotonic_ns(), ticked = start;
	bool over = false;

	m->limit = l->count;
	while (!limits_reached(m, l, start, ret)) {
		enum pump_result r;
		struct wc_error *err =
			m->ops->pump(m->engine, l->count || l->time_ns ? PUMP_MS / 10 : PUMP_MS, &r);
		uint64_t now = monotonic_ns();

		if (!err)
			err = after_pump(m, r, &over, ret);
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

	return count ? put(m, &e) : NULL;
}

static struct wc_error *tell_summary(struct monitor *m, unsigned int i)
{
	struct trace_event e = { .type = EVENT_SUMMARY };
	struct engine_counts c;
	struct wc_error *err;

	if (!m->watch[i].armed)
		return NULL;
	m->ops->counts(m->engine, i, &c);
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
	return put(m, &e);
}

static struct wc_error *finish(struct monitor *m)
{
	struct wc_error *err = m->ops->stop(m->engine);
	unsigned int i;

	for (i = 0; i < m->options.nwatches && !err; i++)
		err = tell_summary(m, i);
	return err;
}

struct wc_error *monitor_close(struct monitor *m)
{
	struct wc_error *err, *close_err;

	if (!m)
		return NULL;
	err = finish(m);
	close_err = m->ops->close(m->engine);
	reap(m);
	free_monitor(m);
	if (err)
		wc_error_free(close_err);
	return err ? err : close_err;
}

const char *monitor_never_armed(const struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < m->options.nwatches; i++)
		if (!m->watch[i].armed)
			return m->options.watch[i].expr;
	return NULL;
}
