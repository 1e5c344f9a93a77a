#include "watchctl/cli/steprec/steprec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/step/lldb/stepper_lldb.h"
#include "watchctl/step/lldb/planner_lldb.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/trace/log/tracelog.h"

struct steprec {
	struct step_request request;
	struct lldb_process *process;
	struct steprec_user user;
	uint64_t time_ns;
	pid_t pid;
	struct planner *planner;
	struct tracelog_writer *log;
	char *path;
	struct step_session *session;
	bool paused, over;
	enum session_end end;
};

static const char *end_text(enum session_end end)
{
	switch (end) {
	case SESSION_DONE:
		return "the range is over";
	case SESSION_STUCK:
		return "nothing happened any more: the log shows where each thread is blocked";
	case SESSION_STOPPED:
		return "it was stopped";
	case SESSION_TIME:
		return "its time limit was reached";
	case SESSION_EXITED:
		return "the process has ended";
	case SESSION_EXECED:
		return "the process executes another program";
	case SESSION_PAUSED:
		return "it is paused";
	default:
		return ""; /* of sessions of other kinds */
	}
}

/* "steprec-PID.log", or the next name that is free. */
static char *free_name(pid_t pid)
{
	unsigned int i;
	char *name;

	for (i = 1; i < 10000; i++) {
		int n = i == 1 ? asprintf(&name, "steprec-%d.log", pid)
			       : asprintf(&name, "steprec-%d-%u.log", pid, i);

		if (n < 0)
			return NULL;
		if (access(name, F_OK))
			return name;
		free(name);
	}
	return NULL;
}

static struct wc_error *open_log(struct steprec *r, const char *name)
{
	r->path = name ? strdup(name) : free_name(r->pid);
	return r->path ? tracelog_writer_open(r->path, &r->log) : &wc_enomem;
}

static struct wc_error *steprec_tick(void *ctx)
{
	struct steprec *r = ctx;

	r->user.look_around(r->user.ctx);
	if (r->user.wants_out(r->user.ctx))
		lldb_process_ask_pause(r->process);
	return tracelog_writer_flush(r->log);
}

static void discard(struct steprec *r)
{
	if (r->session)
		wc_error_free(step_session_close(r->session));
	tracelog_writer_discard(r->log);
	if (r->planner)
		planner_lldb.close(r->planner);
	free(r->path);
	free(r);
}

static struct wc_error *steprec_prepare(struct steprec *r, const struct steprec_options *o,
					struct lldb_session *s)
{
	struct wc_error *err;

	r->request = o->request;
	r->request.pid = r->pid;
	r->request.host = r->process;
	r->request.stepper = &stepper_lldb;
	r->request.planner_ops = &planner_lldb;
	r->request.plans.memory = proc_memory(&r->pid);
	r->request.say = r->user.say;
	r->request.say_ctx = r->user.ctx;
	r->time_ns = o->time_ns;
	err = open_log(r, o->log);
	err = err ? err : planner_lldb_on(s, &r->request.plans, &r->planner);
	if (err)
		return err;
	r->request.planner = r->planner;
	return step_session_open(&r->request, tracelog_writer_sink(r->log), &r->session);
}

struct wc_error *steprec_open(const struct steprec_options *o, struct lldb_process *p, struct lldb_session *s,
			      struct steprec_user user, struct steprec **ret)
{
	struct steprec *r = calloc(1, sizeof(*r));
	size_t functions, over, modules;
	struct wc_error *err;

	if (!r)
		return &wc_enomem;
	r->process = p;
	r->pid = lldb_process_pid(p);
	r->user = user;
	r->paused = true;
	err = steprec_prepare(r, o, s);
	if (err) {
		discard(r);
		return err;
	}
	step_session_selected(r->session, &functions, &over, &modules);
	user.say(user.ctx, "%zu functions of %zu modules are recorded, calls of %zu others are stepped over",
		 functions, modules, over);
	*ret = r;
	return NULL;
}

static void say_end(struct steprec *r)
{
	scoped(freep) char *untyped = step_session_untyped(r->session);
	struct stepper_counts counts;
	struct step_tally t;

	step_session_totals(r->session, &t, &counts);
	r->user.say(r->user.ctx, "%" PRIu64 " calls of %" PRIu64 " functions are recorded in %s: %s", t.calls,
		    t.functions, r->path, end_text(r->end));
	if (r->request.from && !counts.from_seen)
		r->user.say(r->user.ctx, "%s was never reached", r->request.from);
	if (r->request.to && !counts.to_seen)
		r->user.say(r->user.ctx, "%s was never reached", r->request.to);
	if (untyped)
		r->user.say(r->user.ctx, "%s", untyped);
}

static struct wc_error *ended(struct steprec *r, struct wc_error *err)
{
	r->paused = !err && r->end == SESSION_PAUSED;
	r->over = !r->paused;
	if (!err && r->over)
		say_end(r);
	return wc_error_first(err, tracelog_writer_flush(r->log));
}

struct wc_error *steprec_run(struct steprec *r)
{
	const struct session_limits limits = { .time_ns = r->time_ns, .tick = steprec_tick, .tick_ctx = r };

	if (r->over)
		return wc_error_new(WC_EUSAGE, "the recording in %s is over", r->path);
	return ended(r, step_session_run(r->session, &limits, &r->end));
}

struct wc_error *steprec_finish(struct steprec *r)
{
	return r->over ? NULL : ended(r, step_session_finish(r->session, &r->end));
}

bool steprec_is_paused(const struct steprec *r)
{
	return r->paused;
}

const char *steprec_log(const struct steprec *r)
{
	return r->path;
}

char *steprec_status(const struct steprec *r)
{
	struct stepper_counts counts;
	struct step_tally t;
	char *text;
	int n;

	step_session_totals(r->session, &t, &counts);
	n = asprintf(&text,
		     "recording of process %d in %s: %s\n"
		     "  range %s%s%s%s: entered %" PRIu64 " times, recorded %u times\n"
		     "  %" PRIu64 " calls, %" PRIu64 " returns, %" PRIu64 " signals, %" PRIu64
		     " threads, %" PRIu64 " instructions; %" PRIu64 " stops\n",
		     r->pid, r->path, end_text(r->end), r->request.from ? "from " : "from the start",
		     r->request.from ? r->request.from : "", r->request.to ? " to " : "",
		     r->request.to ? r->request.to : "",
		     r->request.from ? counts.from_seen : counts.occurrences, t.occurrences, t.calls,
		     t.returns, t.signals, t.threads, t.steps, counts.stops);
	return n < 0 ? NULL : text;
}

struct wc_error *steprec_close(struct steprec *r)
{
	struct wc_error *err;

	if (!r)
		return NULL;
	err = step_session_close(r->session);
	err = wc_error_first(err, tracelog_writer_close(r->log));
	planner_lldb.close(r->planner);
	free(r->path);
	free(r);
	return err;
}
