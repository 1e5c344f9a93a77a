#include <stdio.h>

#include "watchctl/engine/perf_bp.h"
#include "watchctl/monitor/monitored.h"

/* Why the handler must not go into this process; NULL: it may. */
static const char *handler_refused(pid_t pid, const struct proc_status *s)
{
	if (proc_seccomp(pid))
		return "the process runs under seccomp, and could be killed for a system call of the handler";
	if (s->shadow_stack)
		return "the process runs with a shadow stack, which the handler would break";
	return NULL;
}

static bool names_a_register(const struct monitor *m)
{
	unsigned int i;

	for (i = 0; i < MONITOR_WATCHES; i++)
		if (m->watch[i].used && m->options.watch[i].slot >= 0)
			return true;
	return false;
}

static void choose(struct monitor *m, const struct engine_ops *ops, const char *why)
{
	m->ops = ops;
	snprintf(m->why, sizeof(m->why), "%s", why);
}

/* The fastest that is safe and permitted. */
static void choose_best(struct monitor *m)
{
	struct proc_status s = { 0 };
	const char *refused;
	bool perf;

	proc_status_read(m->pid, m->pid, &s);
	refused = handler_refused(m->pid, &s);
	perf = perf_bp_used(m->pid) >= 0;
	if (names_a_register(m) && !refused)
		choose(m, &engine_handler, "");
	else if (perf && !names_a_register(m))
		choose(m, refused ? &engine_ring : &engine_handler, refused ? refused : "");
	else
		choose(m, &engine_ptrace,
		       refused ? refused
			       : "perf events are not permitted on this process: each hit stops its thread");
}

struct wc_error *monitor_choose(struct monitor *m)
{
	static const struct engine_ops *const by_name[] = {
		[MONITOR_HANDLER] = &engine_handler,
		[MONITOR_RING] = &engine_ring,
		[MONITOR_PTRACE] = &engine_ptrace,
	};

	if (m->options.engine == MONITOR_AUTO)
		choose_best(m);
	else
		choose(m, by_name[m->options.engine], "asked for");
	if (m->ops == &engine_ring && names_a_register(m))
		return wc_error_new(WC_ENOTSUP,
				    "the ring engine cannot choose a debug register (-i): the kernel does; "
				    "leave -i out, or choose --engine handler or ptrace");
	if (m->options.follow_fork && !m->ops->follows_fork)
		return wc_error_new(WC_ENOTSUP,
				    "the %s engine cannot follow into forked children: choose --engine ring",
				    m->ops->name);
	return NULL;
}
