/*
 * The captures of a session: when it begins with them, what it says of them, how they share one order of time
 * with the accesses.
 */
#include <poll.h>
#include <stdio.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/monitor/monitored.h"
#include "watchctl/target/proc/process_fd.h"
#include "watchctl/target/stop/run_to_entry.h"

/* An engine shows what its target did within so much of its doing it. */
#define ENGINE_LAG_NS 50000000ull
#define END_MS 10 /* between two looks whether it has ended */
#define END_LOOKS 200

static struct wc_error *no_library(const struct monitor *m)
{
	char who[64];
	struct wc_error *err;

	proc_describe(m->pid, who, sizeof(who));
	err = wc_error_new(
		WC_ENOTSUP,
		"%s does not contain libstackwalk, so it captures nothing: link it with -lstackwalk (see "
		"stackwalk(7))",
		who);
	return wc_error_hint(err, "with --pending, watchctl waits until a library with captures is loaded");
}

static struct wc_error *report_found(struct monitor *m)
{
	if (m->reported_tags || !tags_found(m->tags))
		return NULL;
	m->reported_tags = true;
	if (!m->collected_ns)
		m->collected_ns = monotonic_ns();
	return monitor_note(
		m,
		"captures are collected from here on, from %s: at most %u frames each, %zu KB for each thread",
		tags_first(m->tags), m->options.tag_frames, m->options.tag_ring_size >> 10);
}

struct wc_error *monitor_check_library(const struct monitor *m)
{
	struct wc_error *err;
	bool present;

	if (!m->options.tags || m->launched || m->options.pending || m->options.follow_exec)
		return NULL;
	err = tags_present(m->pid, &present);
	return err || present ? err : no_library(m);
}

/*
 * Not where it would have to wait for us on the way, at a hook, or for the ptrace engine, at a hit: then it
 * is let go as it is, and the library found soon after.
 */
static bool may_run_to_entry(const struct monitor *m)
{
	return m->held.tid && (!m->engine || (m->ops != &engine_ptrace && !m->hooked && !m->held.away));
}

struct wc_error *monitor_collect(struct monitor *m)
{
	const struct tags_options o = {
		.pid = m->pid,
		.frames = m->options.tag_frames,
		.ring_size = m->options.tag_ring_size,
		.tags = &m->tag_table,
		.stop = m->options.stop,
	};
	bool may_wait = m->options.pending || m->options.follow_exec || (m->launched && m->engine);
	struct wc_error *err;

	if (!m->options.tags)
		return NULL;
	err = process_fd_open(m->pid, &m->pidfd);
	if (!err && may_run_to_entry(m))
		err = run_to_entry(&m->held);
	if (!err)
		err = tags_open(&o, m->events, &m->tags);
	if (err)
		return err;
	if (!tags_found(m->tags) && !tags_may_come(m->tags) && !may_wait)
		return no_library(m);
	return report_found(m);
}

struct wc_error *monitor_collect_poll(struct monitor *m, enum tags_state *ret)
{
	uint64_t engine_ns = m->engine ? monotonic_ns() - ENGINE_LAG_NS : UINT64_MAX;
	struct tags_poll p;
	struct wc_error *err = tags_poll(m->tags, &p);

	if (!err)
		err = report_found(m);
	if (err)
		return err;
	m->tags_wait_ns = p.wait_ns;
	*ret = p.state;
	if (p.state != TAGS_RUN)
		p.until_ns = UINT64_MAX;
	return m->timeline ? timeline_release(m->timeline, p.until_ns < engine_ns ? p.until_ns : engine_ns)
			   : NULL;
}

void monitor_wait(const struct monitor *m, uint64_t most_ns)
{
	struct pollfd p = { .fd = m->pidfd, .events = POLLIN };
	uint64_t ns = m->tags && m->tags_wait_ns < most_ns ? m->tags_wait_ns : most_ns;
	struct timespec ts = { .tv_nsec = (long)ns };

	if (ns)
		ppoll(&p, 1, &ts, NULL);
}

enum pump_result monitor_look(struct monitor *m)
{
	enum session_end end;

	if (!exec_watch_is_over(&m->exec, m->pidfd, &end))
		return PUMP_IDLE;
	return end == SESSION_EXITED ? PUMP_EXITED : PUMP_EXECED;
}

/* The memory that was collected from is gone: is the process? */
enum pump_result monitor_how_it_ended(const struct monitor *m)
{
	struct proc_status s;
	int i;

	for (i = 0; i < END_LOOKS; i++) {
		if (process_fd_ended(m->pidfd, END_MS) || !proc_status_read(m->pid, m->pid, &s))
			return PUMP_EXITED;
		if (s.has_memory)
			return PUMP_EXECED;
	}
	return PUMP_EXITED;
}

struct wc_error *monitor_collect_stop(struct monitor *m)
{
	struct wc_error *err;

	if (!m->tags)
		return NULL;
	err = tags_stop(m->tags);
	tags_counts(m->tags, &m->tag_counts);
	tags_free(m->tags);
	m->tags = NULL;
	m->reported_tags = false;
	return err;
}

struct wc_error *monitor_collect_summary(struct monitor *m)
{
	const struct tag_counts *c = &m->tag_counts;
	struct trace_event e = { .type = EVENT_SUMMARY };
	uint64_t lost = c->lost_full + c->lost_no_ring + c->lost_unfinished;
	struct wc_error *err = NULL;

	if (!m->collected_ns)
		return NULL;
	if (!c->has_counted)
		err = monitor_note(
			m, "captures made after watchctl last read the program were not collected, and their "
			   "number is not known");
	if (err)
		return err;
	e.summary = (struct summary_event){
		.watch = WATCH_CAPTURES,
		.has_counted = c->has_counted,
		.counted = c->counted,
		.recorded = m->captured,
		.lost = lost,
		.filtered = c->recorded - m->captured,
		.duration_ns = monotonic_ns() - m->collected_ns,
	};
	return monitor_put(m, &e);
}
