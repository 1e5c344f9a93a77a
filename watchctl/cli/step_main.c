/*
 * step_main - watchctl-step: what `watchctl step` and `watchctl trace --args` run. Linked with LLDB, which plans what is to be read at
 * each function, and with --stepper lldb moves the program, too.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/fault_guard.h"
#include "watchctl/base/privilege.h"
#include "watchctl/base/progress.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/cli/request/step_from_watch.h"
#include "watchctl/cli/request/step_options.h"
#include "watchctl/cli/request/step_pace.h"
#include "watchctl/cli/request/step_patched.h"
#include "watchctl/cli/request/step_said.h"
#include "watchctl/cli/request/step_worker.h"
#include "watchctl/cli/request/trace_run.h"
#include "watchctl/step/lldb/stepper_lldb.h"
#include "watchctl/step/lldb/planner_lldb.h"
#include "watchctl/step/model/stepper.h"
#include "watchctl/step/ptrace/step_target.h"
#include "watchctl/view/words/json.h"

static volatile sig_atomic_t stop_asked;

/* Of step_main_started(). */
struct start {
	struct step_command *command;
	struct output *output;
};

struct pace {
	struct output *output;
	const struct step_session *session;
	struct progress line;
	uint64_t begun_ns; /* when the program was let run */
	bool shows;	   /* nothing else is printed where the line would be */
};

/* NULL: it is too early for it, or there is nothing to say. */
static char *pace_text(const struct pace *p)
{
	const uint64_t ns = monotonic_ns() - p->begun_ns;
	struct step_most most[STEP_MOST];
	struct stepper_counts counts;
	struct step_tally t;

	step_session_totals(p->session, &t, &counts);
	if (ns < STEP_PACE_AFTER_NS || !t.calls)
		return NULL;
	step_session_most(p->session, most);
	return step_pace_text(t.calls, ns, most);
}

static struct wc_error *step_main_tick(void *ctx)
{
	struct pace *p = ctx;
	scoped(freep) char *text = p->shows ? pace_text(p) : NULL;

	if (text)
		progress_line(&p->line, text);
	return output_tick(p->output);
}

/* From now on a call that was asked for does not escape. */
static void step_main_started(void *ctx)
{
	const struct start *s = ctx;
	const struct step_request *q = &s->command->request;
	struct json j = { 0 };

	if (s->command->output.json && !s->command->output.no_events) {
		json_open(&j, NULL, '{');
		json_text(&j, "type", "ready");
		json_number(&j, "pid", (uint64_t)q->pid);
		json_number(&j, "time_ns", monotonic_ns());
		json_close(&j, '}');
		json_end_line(&j, s->output->out);
		json_deinit(&j);
	}
	fflush(s->output->out);
	output_say(NULL, "recording process %d%s%s", q->pid, q->from ? ", as soon as it reaches " : "",
		   q->from ? q->from : "");
	ready_tell(&s->command->ready);
}

/* Nothing more is recorded. */
static void end_pace(struct pace *p, const struct step_command *c)
{
	scoped(freep) char *text = c->quiet ? NULL : pace_text(p);

	progress_end(&p->line);
	if (text)
		output_say(NULL, "%s", text);
}

/* Also what is no error, and still has to be known. */
static struct wc_error *verdict(const struct step_command *c, enum session_end end,
				const struct step_tally *t, const char *untyped,
				const struct stepper_counts *counts)
{
	const struct step_range_said said = { .request = &c->request,
					      .from_seen = counts->from_seen,
					      .to_seen = counts->to_seen,
					      .occurrences = counts->occurrences,
					      .recorded = t->occurrences,
					      .end = end };

	if (untyped)
		output_say(NULL, "%s", untyped);
	if (t->lost)
		output_say(NULL, "%" PRIu64 " events were lost: the log says where", t->lost);
	return step_range_verdict(&said);
}

static struct wc_error *record(struct step_command *c, struct output *output, struct step_target *target)
{
	struct pace pace = { .output = output, .shows = c->output.no_events };
	struct start start = { c, output };
	struct step_session *s = NULL;
	struct stepper_counts counts;
	struct step_tally totals;
	enum session_end end = SESSION_STOPPED;
	struct wc_error *err, *close_err;
	scoped(freep) char *untyped = NULL;
	size_t functions, over, modules;

	c->request.pid = target->pid;
	c->request.held = step_target_held(target);
	err = step_session_open(&c->request, output->events, &s);
	if (err) {
		output_discard_log(output);
		step_target_abandon(target); /* it may stand still, to be handed over */
		return err;
	}
	if (c->stepper == STEP_STEPPER_PTRACE) /* LLDB has threads, and programs of its own */
		privilege_keep_for_tracing();
	step_session_selected(s, &functions, &over, &modules);
	if (c->verbose)
		output_say(NULL,
			   "%zu functions of %zu modules are recorded, calls of %zu others are stepped over",
			   functions, modules, over);
	pace.session = s;
	pace.begun_ns = monotonic_ns();
	progress_begin(&pace.line, "recording");
	c->limits.tick = step_main_tick;
	c->limits.tick_ctx = &pace;
	c->request.started = step_main_started;
	c->request.started_ctx = &start;
	err = step_session_run(s, &c->limits, &end);
	if (!err)
		end_pace(&pace, c);
	progress_end(&pace.line);
	step_session_totals(s, &totals, &counts);
	untyped = err ? NULL : step_session_untyped(s);
	close_err = step_session_close(s);
	if (!err)
		err = verdict(c, end, &totals, untyped, &counts);
	if (err && close_err)
		output_say(NULL, "%s", close_err->text);
	return wc_error_first(err, close_err);
}

static struct wc_error *run_with_target(struct step_command *c, struct output *output)
{
	struct step_target target = { 0 };
	struct wc_error *err = step_target_open(c->request.pid, c->argv, c->aslr, &target);

	if (err) {
		output_discard_log(output);
		return err;
	}
	if (c->argv && !c->aslr)
		step_said_addresses(target.addresses);
	err = record(c, output, &target);
	if (err && step_target_held(&target))
		step_target_abandon(&target);
	step_target_close(&target);
	return err;
}

static struct wc_error *record_patched(struct step_command *c, struct output *output)
{
	struct start start = { c, output };

	c->limits.tick = output_tick;
	c->limits.tick_ctx = output;
	c->request.started = step_main_started;
	c->request.started_ctx = &start;
	return step_patched_run(c, output);
}

static struct wc_error *step_main_run(int argc, char **argv)
{
	struct output output = { .stop = &stop_asked };
	scoped(freep) char *from = NULL;
	struct step_command c;
	struct wc_error *err = step_options_parse(argc, argv, &c);

	if (!err && c.from_watch)
		err = step_from_watch(c.from_watch, &from);
	if (!err)
		err = ready_check(&c.ready);
	if (err)
		return err;
	if (from) {
		output_say(NULL, "all accesses in %s were made in calls of %s, which is the range",
			   c.from_watch, from);
		c.request.from = from;
	}
	if (c.verbose)
		c.request.say = output_say;
	c.request.planner_ops = &planner_lldb;
	c.limits.stop = &stop_asked;
	c.request.stepper = c.stepper == STEP_STEPPER_LLDB ? &stepper_lldb : &stepper_ptrace;
	output_catch_signals(&stop_asked);
	err = output_open(&c.output, &output);
	if (!err)
		err = c.stepper == STEP_STEPPER_PATCH ? record_patched(&c, &output)
						      : run_with_target(&c, &output);
	return wc_error_first(err, output_close(&output, !err || err->kind == WC_ETARGET));
}

int main(int argc, char **argv)
{
	fault_guard_install();
	survive_write_signals();
	return end_with(strcmp(argv[0], STEP_WORKER_TRACES) ? step_main_run(argc, argv)
							    : trace_run_typed(argc, argv, &planner_lldb));
}
