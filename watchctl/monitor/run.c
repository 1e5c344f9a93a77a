/* The pumping, until something ends it. */
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/privilege.h"
#include "watchctl/monitor/monitored.h"
#include "watchctl/session/session.h"
#include "watchctl/target/proc/proc.h"

#define PUMP_NS 100000000ull
#define WAIT_NS 20000000ull /* without an engine */

static struct wc_error *on_exec(struct monitor *m)
{
	if (m->options.follow_exec && !proc_is_ending(m->pid, m->pid)) {
		struct wc_error *err = monitor_follow_exec(m);

		if (!err || !proc_is_ending(m->pid, m->pid))
			return err;
		wc_error_free(err);
	}
	m->over = true;
	m->end = SESSION_EXECED;
	if (m->options.follow_exec)
		return monitor_note(
			m, "the process has executed another program, and has ended before the watch "
			   "could continue in it: accesses of that program are not seen");
	return monitor_note(
		m, monitor_has_watches(m)
			   ? "the process has executed another program: its variables no longer exist, and "
			     "the watch has ended"
		   : m->options.tags ? "the process has executed another program: the collection has ended"
				     : "the process has executed another program");
}

static struct wc_error *after_pump(struct monitor *m, enum pump_result r)
{
	m->at_hook = r == PUMP_HOOK;
	switch (r) {
	case PUMP_HOOK: {
		struct wc_error *err = monitor_on_hook(m);

		if (err)
			monitor_drop_child(m);
		return err;
	}
	case PUMP_EXITED:
		m->over = true;
		m->end = SESSION_EXITED;
		return NULL;
	case PUMP_EXECED:
		return on_exec(m);
	case PUMP_ENDED:
		return monitor_yield(m);
	case PUMP_IDLE:
		break;
	}
	return NULL;
}

/* The captures, beside what the engine pumps; or without one. */
static struct wc_error *pump_captures(struct monitor *m, enum pump_result *r)
{
	enum tags_state state;
	struct wc_error *err = monitor_collect_poll(m, &state);

	if (err || state == TAGS_RUN)
		return err;
	if (state == TAGS_SUPPLANTED) {
		err = monitor_note(
			m, "another process has begun to collect the captures: this recording of them "
			   "ends here");
		if (!err)
			err = monitor_collect_stop(m);
		m->over = !m->engine && !m->options.may_add;
		m->end = SESSION_SUPPLANTED;
		return err;
	}
	if (!m->engine)
		*r = monitor_how_it_ended(m);
	else if (*r != PUMP_EXECED) /* the engine will say which */
		m->tags_wait_ns = WAIT_NS;
	return NULL;
}

struct wc_error *monitor_pump(struct monitor *m, uint64_t most_ns)
{
	uint64_t ns = m->tags && m->tags_wait_ns < most_ns ? m->tags_wait_ns : most_ns;
	enum pump_result r = PUMP_IDLE;
	struct wc_error *err = NULL;

	m->at_hook = false;
	if (m->engine)
		err = m->ops->pump(m->engine, (int)(ns / 1000000), &r);
	else
		monitor_wait(m, most_ns < WAIT_NS ? most_ns : WAIT_NS);
	if (!err && m->tags)
		err = pump_captures(m, &r);
	else if (!err && !m->engine)
		r = monitor_look(m);
	return err || m->over ? err : after_pump(m, r);
}

static struct wc_error *look_around(struct monitor *m)
{
	struct wc_error *err;

	m->extended_ns = monotonic_ns();
	err = monitor_extend(m);
	if (!err)
		err = monitor_look_again(m);
	return err ? err : monitor_look_at_values(m);
}

static struct wc_error *run_pump(void *self, bool may_wait, enum source_state *state, enum session_end *end)
{
	struct monitor *m = self;
	struct wc_error *err = m->over ? NULL : monitor_pump(m, may_wait ? m->wait_ns : 0);

	if (!err && !m->over && monotonic_ns() - m->extended_ns > EXTEND_NS)
		err = look_around(m);
	if (m->over) {
		*state = SOURCE_ENDED;
		*end = m->end;
		return err;
	}
	if (m->at_hook)
		*state = SOURCE_HOLDS;
	if (!err)
		monitor_reap(m);
	return err;
}

static uint64_t run_count(const void *self)
{
	const struct monitor *m = self;

	return m->limit ? m->forwarded : 0;
}

struct source monitor_source(struct monitor *m, uint64_t count, uint64_t wait_ns)
{
	static const struct source_ops ops = { .pump = run_pump, .count = run_count };

	privilege_keep_for_tracing();
	m->limit = count;
	m->wait_ns = wait_ns;
	return (struct source){ &ops, m };
}

static uint64_t wait_time(const struct session_limits *l)
{
	uint64_t ns = l->count || l->time_ns ? PUMP_NS / 10 : PUMP_NS;

	return l->tick && l->tick_ns && l->tick_ns < ns ? l->tick_ns : ns;
}

struct wc_error *monitor_run(struct monitor *m, const struct session_limits *l, enum session_end *ret)
{
	const struct source s = monitor_source(m, l->count, wait_time(l));

	return session_run(&s, 1, l, ret);
}
