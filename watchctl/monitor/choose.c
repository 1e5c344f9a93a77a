/*
 * choose - which engine. Without a wish, the least intrusive one that keeps every promise for these watches
 * on this target. In turn:
 *
 *	ring, with BPF	puts nothing into the program; but cannot make it wait
 *	handler		where it sees every hit and can do no harm
 *	ring		by BPF after all, or by the kernel's samples: what is known of values is less
 *	ptrace		a stop a hit
 *
 * What speaks against one is known beforehand, or said by the engine when it is opened: then the next is
 * tried, and the reason is reported with the watch.
 */
#include <stdio.h>

#include "watchctl/base/error.h"
#include "watchctl/engine/arm/perf_bp.h"
#include "watchctl/monitor/monitored.h"
#include "watchctl/target/proc/trap_block.h"
#include "watchctl/target/stop/dispatch.h"

struct candidate {
	const struct engine_ops *ops;
	bool values; /* only where BPF records */
	const char *(*against)(struct monitor *m);
};

static bool names_a_register(const struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		if (m->watch[i].used && m->options.watch[i].slot >= 0)
			return true;
	return false;
}

/* What is wrong with the request is reported by whoever arms it. */
static bool is_still_to_come(struct monitor *m, unsigned int i)
{
	bool missing = false;
	struct wc_error *err = monitor_plan(m, i, &missing);
	bool unknown = err && (missing || (m->launched && err->kind == WC_ENAME));

	wc_error_free(err);
	return unknown;
}

/* A promise to these watches that takes threads that wait for us. */
static const char *needs_waiting(struct monitor *m)
{
	unsigned int i;

	if (m->options.may_add)
		return "later watches may need threads to wait";
	if (m->options.pending)
		return "threads wait while the watch of a new library is armed";
	for (i = 0; i < MONITOR_WATCHES; i++) {
		if (!monitor_wants(m, i))
			continue;
		if (m->options.watch[i].follow)
			return "threads wait while a pointer changes";
		if (is_still_to_come(m, i))
			return "threads wait while the watch of a new library is armed";
		if (monitor_is_per_thread(&m->watch[i]))
			return "the ring engine cannot make new threads wait until their own copy is armed";
	}
	return NULL;
}

/* NULL: its breakpoints can be had. */
static const char *against_perf(const struct monitor *m)
{
	return perf_bp_used(m->pid) < 0
		       ? "perf events are not permitted on this process: each hit stops its thread"
		       : NULL;
}

static const char *against_ring(struct monitor *m)
{
	return names_a_register(m) || m->options.private_ring ? "" : against_perf(m);
}

static const char *against_recorder(struct monitor *m)
{
	const char *why = against_ring(m);

	return why ? why : needs_waiting(m);
}

/* Why the handler must not go into this process, or would not see; NULL: it may. */
static const char *against_handler(struct monitor *m)
{
	struct proc_status s = { 0 };
	const char *why;

	proc_status_read(m->pid, m->pid, &s);
	if (proc_seccomp(m->pid))
		return "the process runs under seccomp: a system call of the handler could kill it";
	if (s.shadow_stack)
		return "the process runs with a shadow stack, which the handler would break";
	if (dispatch_find(m->pid))
		return "the process dispatches system calls itself: a system call of the handler could kill it";
	/* A trap that nobody registered with perf is forced upon its thread (force_sig_info_to_task()). */
	if (names_a_register(m))
		return "the kernel ends a thread that hits a register set by -i while it blocks SIGTRAP, unless it is traced";
	if (trap_is_blocked(m->pid))
		return "a thread blocks SIGTRAP, and the handler would miss its hits";
	why = m->options.private_ring ? NULL : against_perf(m);
	if (why)
		return why;
	if (s.tracer && !m->held.tid)
		return "another program traces it, so that the handler cannot be placed";
	return NULL;
}

static const char *against_nothing(struct monitor *m)
{
	(void)m;
	return NULL;
}

static const struct candidate candidates[] = {
	{ &engine_ring, true, against_recorder },
	{ &engine_handler, false, against_handler },
	{ &engine_ring, false, against_ring },
	{ &engine_ptrace, false, against_nothing },
};

#define CANDIDATES (sizeof(candidates) / sizeof(candidates[0]))

bool monitor_has_next_engine(const struct monitor *m)
{
	return m->options.engine == MONITOR_AUTO && m->candidate + 1 < CANDIDATES;
}

static struct wc_error *open_engine(struct monitor *m, bool values)
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
		.values = values,
		.may_yield = monitor_has_next_engine(m),
	};

	return m->ops->open(m->pid, &o, m->events, &m->engine);
}

static void report_why(struct monitor *m, const char *why)
{
	if (*why)
		snprintf(m->why, sizeof(m->why), "%s", why);
}

/* An engine that says no leaves the target as it was: the next one may do. */
static bool says_no(const struct wc_error *err)
{
	return err->kind == WC_ENOTSUP || err->kind == WC_EPERM;
}

/* That BPF is not permitted goes without saying. Where all refuse, the first reason counts. */
static struct wc_error *open_best(struct monitor *m)
{
	struct wc_error *first = NULL, *err;

	for (; m->candidate < CANDIDATES; m->candidate++) {
		const struct candidate *c = &candidates[m->candidate];
		const char *why = c->against(m);

		if (why) {
			report_why(m, why);
			continue;
		}
		m->ops = c->ops;
		err = open_engine(m, c->values);
		if (!err || !says_no(err)) {
			wc_error_free(first);
			return err;
		}
		if (!c->values)
			report_why(m, err->text);
		if (c->values || first)
			wc_error_free(err);
		else
			first = err;
	}
	return first;
}

static struct wc_error *check_wish(const struct monitor *m)
{
	if (m->ops == &engine_ring && names_a_register(m))
		return wc_error_new(
			WC_ENOTSUP,
			"the ring engine cannot choose a debug register (-i), because the kernel does: "
			"omit -i, or choose --engine handler or ptrace");
	if (m->options.follow_fork && !m->ops->follows_fork)
		return wc_error_new(WC_ENOTSUP,
				    "the %s engine cannot follow into forked children: choose --engine ring",
				    m->ops->name);
	return NULL;
}

struct wc_error *monitor_open_engine(struct monitor *m)
{
	static const struct engine_ops *const by_name[] = {
		[MONITOR_HANDLER] = &engine_handler,
		[MONITOR_RING] = &engine_ring,
		[MONITOR_PTRACE] = &engine_ptrace,
	};
	struct wc_error *err;

	m->candidate = 0;
	m->why[0] = '\0';
	if (m->options.engine == MONITOR_AUTO)
		return open_best(m);
	m->ops = by_name[m->options.engine];
	report_why(m, "asked for");
	err = check_wish(m);
	return err ? err : open_engine(m, false);
}

struct wc_error *monitor_open_next_engine(struct monitor *m)
{
	snprintf(m->why, sizeof(m->why), "the %s engine had to give up", m->ops->name);
	m->candidate++;
	return open_best(m);
}
