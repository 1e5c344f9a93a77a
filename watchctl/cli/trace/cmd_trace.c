/* cmd_trace - `watchctl trace`: every call of chosen functions of a running program, or of one that it starts. */
#include <signal.h>
#include <stdio.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/cli/output/ready_options.h"
#include "watchctl/cli/request/step_worker.h"
#include "watchctl/cli/request/trace_choice.h"
#include "watchctl/cli/request/trace_run.h"
#include "watchctl/cli/trace/untraced.h"
#include "watchctl/monitor/calls/call_trace.h"

#define BUFFER_LEAST (64u << 10)
#define BUFFER_MOST (1u << 30)
#define STRING_DEFAULT 80u /* as of `watchctl step` */

struct trace_ask {
	pid_t pid;
	char *const *argv;
	struct trace_choice choice;
	uint64_t buffer;
	uint64_t count, time_ns;
	bool args, wait, untraced, pending, json, quiet, echo;
	struct planner_options values;
	const struct planner_ops *planner; /* NULL: registers */
	struct output_options output;
	struct ready_ask ready;
};

static volatile sig_atomic_t stop_asked;

static struct wc_error *set_seconds(const struct option_match *m, void *to)
{
	return option_time(m, to);
}

static const struct option options[] = {
	{ "-p", "--pid", "PID", "the running process", COMPLETE_PID, NULL,
	  OPTION_NUMBER(struct trace_ask, pid, 1, INT32_MAX) },
	OPTIONS_IN(struct trace_ask, choice, trace_choice_options),
	{ "--args", NULL, NULL, "record parameters and results, by their types or else by their registers", 0,
	  NULL, OPTION_FLAG(struct trace_ask, args) },
	{ "--string", NULL, "N", "with --args: bytes of a string, 1 to 1024 (default 80)", COMPLETE_NOTHING,
	  NULL, OPTION_NUMBER(struct trace_ask, values.string_max, 1, PLANNER_POINTEE_MAX) },
	{ "--pointee", NULL, "N",
	  "with --args: bytes of what a pointer points to, 0 to 1024 (default 0: they are not followed)",
	  COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct trace_ask, values.pointee_max, 0, PLANNER_POINTEE_MAX) },
	{ "--untraced", NULL, NULL,
	  "list the chosen functions that cannot be traced, or of which not all ends are seen, and why", 0,
	  NULL, OPTION_FLAG(struct trace_ask, untraced) },
	{ "--pending", NULL, NULL, "modules and functions that are not there yet may come later", 0, NULL,
	  OPTION_FLAG(struct trace_ask, pending) },
	{ "-n", "--count", "COUNT", "end after COUNT calls", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct trace_ask, count, 1, UINT64_MAX) },
	{ "-t", "--time", "SECONDS", "end after SECONDS (fractions allowed)", COMPLETE_NOTHING, NULL,
	  .set = set_seconds, .at = offsetof(struct trace_ask, time_ns) },
	{ "-o", "--log", "LOG", "record into the new log LOG; calls are then not printed", COMPLETE_DIRECTORY,
	  NULL, OPTION_TEXT(struct trace_ask, output.log) },
	{ "--force", NULL, NULL, "with -o: replace LOG where it exists", 0, NULL,
	  OPTION_FLAG(struct trace_ask, output.force) },
	{ "--echo", NULL, NULL, "with -o: print them all the same", 0, NULL,
	  OPTION_FLAG(struct trace_ask, echo) },
	{ "-q", "--quiet", NULL, "print no calls: only the tables and the summary", 0, NULL,
	  OPTION_FLAG(struct trace_ask, quiet) },
	{ "--output", NULL, "FILE",
	  "print to FILE (default: standard output; with a launched program, standard error)", COMPLETE_FILE,
	  NULL, OPTION_TEXT(struct trace_ask, output.file) },
	{ "--program-output", NULL, "FILE", "the standard output of a launched program goes to FILE",
	  COMPLETE_FILE, NULL, OPTION_TEXT(struct trace_ask, output.program_output) },
	{ "--buffer", NULL, "SIZE",
	  "of the records that wait to be read, for each CPU: 64K to 1G (default: 128M for all, at most 64M for each)",
	  COMPLETE_NOTHING, NULL, OPTION_BYTES(struct trace_ask, buffer) },
	{ "--wait", NULL, NULL,
	  "threads that find no room wait until there is some, so that no call is lost: a program that makes many becomes slower",
	  0, NULL, OPTION_FLAG(struct trace_ask, wait) },
	OPTIONS_IN(struct trace_ask, ready, ready_options),
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct trace_ask, json) },
	{ "--utc", NULL, NULL, "times of day in UTC", 0, NULL,
	  OPTION_FLAG(struct trace_ask, output.print.utc) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct trace_ask, output.colour) },
	{ 0 },
};

static struct wc_error *take_word(void *request, const char *word)
{
	return wc_error_new(WC_EUSAGE, "trace takes no \"%s\": give -p PID, or -- PROGRAM [ARGS]", word);
}

static struct wc_error *check_request(const struct trace_ask *q)
{
	if (!q->pid && !q->argv)
		return wc_error_new(WC_EUSAGE, "trace needs a process: -p PID, or -- PROGRAM [ARGS]");
	if (q->pid && q->argv)
		return wc_error_new(WC_EUSAGE,
				    "-p %d names a process, and a program is to be started: give one of them",
				    q->pid);
	if (!q->args && (q->values.string_max || q->values.pointee_max))
		return wc_error_new(WC_EUSAGE,
				    "--string and --pointee go with --args, whose values they bound");
	if (q->output.force && !q->output.log)
		return wc_error_new(WC_EUSAGE, "--force goes with -o LOG, which it replaces");
	if (q->output.program_output && !q->argv)
		return wc_error_new(WC_EUSAGE, "--program-output needs a program to launch: -- PROGRAM");
	if (q->buffer && (q->buffer < BUFFER_LEAST || q->buffer > BUFFER_MOST))
		return wc_error_new(WC_EUSAGE, "--buffer takes a size from 64K to 1G");
	return NULL;
}

static struct wc_error *run(const struct call_trace_options *o, struct trace_ask *q, struct output *s)
{
	const struct session_limits limits = { .count = q->count,
					       .time_ns = q->time_ns,
					       .stop = &stop_asked,
					       .tick = output_tick,
					       .tick_ctx = s };
	struct untraced_list untraced = { .out = s->out, .json = q->json, .log = s->log };
	struct call_trace_counts counts = { 0 };
	struct call_trace *trace = NULL;
	enum session_end end = SESSION_STOPPED;
	struct wc_error *err = call_trace_open(o, s->events, &trace), *close_err;

	if (err) {
		output_discard_log(s);
		return err;
	}
	fflush(s->out);
	trace_say_begun(trace);
	if (q->untraced)
		err = untraced_tell(&untraced, trace);
	ready_tell(&q->ready);
	if (!err)
		err = call_trace_run(trace, &limits, &end);
	s->watched = !err;
	if (!err && q->untraced)
		err = untraced_tell(&untraced, trace);
	close_err = call_trace_close(trace, &counts);
	if (!err) {
		trace_say_counts(&counts);
		if (end == SESSION_EXECED)
			err = wc_error_new(
				WC_ETARGET,
				"the process has executed another program: its patches ended with the one before");
	}
	return wc_error_first(err, close_err);
}

static struct wc_error *record(struct trace_ask *q)
{
	struct output s = { .stop = &stop_asked };
	const struct call_trace_options o = { .pid = q->pid,
					      .argv = q->argv,
					      .selection = trace_choice_selection(&q->choice),
					      .pending = q->pending,
					      .args = q->args,
					      .wait = q->wait,
					      .planner = q->planner,
					      .values = q->values,
					      .max_rate = q->choice.max_rate,
					      .buffer = q->buffer ? q->buffer : trace_choice_buffer(),
					      .log = q->echo ? NULL : q->output.log,
					      .stop = &stop_asked };
	struct wc_error *err =
		ready_check(&q->ready); /* not before watchctl-step is executed, which has to have it */

	if (err)
		return err;
	output_catch_signals(&stop_asked);
	q->output.json = q->json;
	q->output.launched = q->argv;
	q->output.no_events = q->quiet || (q->output.log && !q->echo);
	q->output.no_tables = q->output.log && !q->echo && !q->quiet;
	err = output_open(&q->output, &s);
	if (!err)
		err = run(&o, q, &s);
	return wc_error_first(err, output_close(&s, !err || s.watched));
}

static struct wc_error *parse(int argc, char **argv, struct trace_ask *q)
{
	struct wc_error *err;

	*q = (struct trace_ask){ 0 };
	trace_choice_init(&q->choice);
	err = option_parse_launch(argc, argv, options, q, take_word, &q->argv);
	if (!err)
		err = check_request(q);
	if (!q->values.string_max)
		q->values.string_max = STRING_DEFAULT;
	return err ? err : trace_choice_finish(&q->choice);
}

struct wc_error *trace_run_typed(int argc, char **argv, const struct planner_ops *planner)
{
	struct trace_ask q;
	struct wc_error *err = parse(argc, argv, &q);

	q.planner = planner;
	if (!err)
		err = record(&q);
	trace_choice_deinit(&q.choice);
	return err;
}

/* Types are known to watchctl-step alone; where that does not run, there are registers. */
static struct wc_error *cmd_trace_run(int argc, char **argv)
{
	struct trace_ask q;
	struct wc_error *err = parse(argc, argv, &q), *why;

	if (!err && q.args) {
		why = step_worker_run("the types of --args", STEP_WORKER_TRACES, argv);
		output_say(NULL, "registers are recorded: %s", why->text);
		wc_error_free(why);
	}
	if (!err)
		err = record(&q);
	trace_choice_deinit(&q.choice);
	return err;
}

const struct command cmd_trace = {
	.name = "trace",
	.args = "-p PID [--in MODULE] [--source GLOB] [--function GLOB] [--not GLOB] [--args] [-t SECONDS] [-o LOG] [options]\n"
		"[--in MODULE] [--source GLOB] [--function GLOB] [--not GLOB] [--args] [-o LOG] [options] -- PROGRAM [ARGS]",
	.summary = "record every call of a running program's functions, without recompiling it",
	.help = "The program's own functions are traced, or with --in those of libraries. Their calls and returns are events as\n"
		"those of watchctl step: watchctl report, export and diff read the log. watchctl-trace(1) says how it is done.\n",
	.options = options,
	.run = cmd_trace_run,
};
