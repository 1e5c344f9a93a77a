/* cmd_trace - `watchctl trace`: every call of chosen functions of a running program, or of one that it starts. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/cli/output/ready_options.h"
#include "watchctl/cli/request/step_worker.h"
#include "watchctl/cli/request/trace_run.h"
#include "watchctl/cli/trace/functions_file.h"
#include "watchctl/cli/trace/untraced.h"
#include "watchctl/monitor/calls/call_trace.h"

#define BUFFERS (128u << 20) /* of all CPUs, where nothing else is asked for */
#define BUFFER_DEFAULT_MOST (64u << 20)
#define BUFFER_DEFAULT_LEAST (4u << 20)
#define BUFFER_LEAST (64u << 10)
#define BUFFER_MOST (1u << 30)
#define STRING_DEFAULT 80u /* as of `watchctl step` */
#define MAX_RATE 100000u   /* calls a second of one function */

struct names {
	const char **v;
	size_t n, cap;
};

struct trace_ask {
	pid_t pid;
	char *const *argv;
	struct names in, source, function, without;
	struct functions_file from;
	uint64_t min_size, max_rate, buffer;
	uint64_t count, time_ns;
	bool args, wait, untraced, pending, json, quiet, echo;
	struct planner_options values;
	const struct planner_ops *planner; /* NULL: registers */
	struct output_options output;
	struct ready_ask ready;
};

static volatile sig_atomic_t stop_asked;

static struct wc_error *add_name(const struct option_match *m, void *to)
{
	struct names *n = to;

	return vec_push(n->v, n->n, n->cap, m->value) ? NULL : &wc_enomem;
}

static struct wc_error *add_functions_file(const struct option_match *m, void *to)
{
	return functions_file_read(to, m->value);
}

/* Adds those of files to those of the command line. */
static struct wc_error *join_names(struct names *to, char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!vec_push(to->v, to->n, to->cap, v[i]))
			return &wc_enomem;
	return NULL;
}

static struct wc_error *set_seconds(const struct option_match *m, void *to)
{
	return option_time(m, to);
}

static const struct option options[] = {
	{ "-p", "--pid", "PID", "the running process", COMPLETE_PID, NULL,
	  OPTION_NUMBER(struct trace_ask, pid, 1, INT32_MAX) },
	{ "--in", NULL, "MODULE",
	  "functions of this module of the process, like libssl.so.3, not of the program itself; may be repeated",
	  COMPLETE_FILE, NULL, .set = add_name, .at = offsetof(struct trace_ask, in) },
	{ "--source", NULL, "GLOB",
	  "only functions that are defined in source files like 'net/*.c', by debug information; may be repeated",
	  COMPLETE_NOTHING, NULL, .set = add_name, .at = offsetof(struct trace_ask, source) },
	{ "--function", NULL, "GLOB", "only functions that are called so, like 'SSL_*'; may be repeated",
	  COMPLETE_FUNCTION, NULL, .set = add_name, .at = offsetof(struct trace_ask, function) },
	{ "--not", NULL, "GLOB", "no functions that are called so; may be repeated", COMPLETE_FUNCTION, NULL,
	  .set = add_name, .at = offsetof(struct trace_ask, without) },
	{ "--functions-from", NULL, "FILE",
	  "the same from FILE: a glob a line, !GLOB for --not, # for comments; may be repeated",
	  COMPLETE_FILE, NULL, .set = add_functions_file, .at = offsetof(struct trace_ask, from) },
	{ "--min-size", NULL, "BYTES", "no functions that are smaller", COMPLETE_NOTHING, NULL,
	  OPTION_BYTES(struct trace_ask, min_size) },
	{ "--max-rate", NULL, "N",
	  "a function that is called more often in a second is switched off, and its calls are counted (default 100000; 0: none is)",
	  COMPLETE_NOTHING, NULL, OPTION_NUMBER(struct trace_ask, max_rate, 0, UINT64_MAX) },
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

static uint64_t default_buffer(void)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);
	const uint64_t each = BUFFERS / (uint64_t)(cpus > 0 ? cpus : 1);

	return each < BUFFER_DEFAULT_LEAST  ? BUFFER_DEFAULT_LEAST
	       : each > BUFFER_DEFAULT_MOST ? BUFFER_DEFAULT_MOST
					    : each;
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void say_begun(const struct call_trace *t)
{
	struct call_trace_counts c;

	call_trace_so_far(t, &c);
	output_say(NULL, "process %d: %zu function%s traced in %zu module%s, %zu refused%s%s%s",
		   call_trace_pid(t), c.functions, plural(c.functions), c.modules, plural(c.modules),
		   c.entries_refused, c.entries_refused ? " (" : "", c.entries_refused ? c.why : "",
		   c.entries_refused ? ")" : "");
	if (c.exits_refused)
		output_say(
			NULL,
			"%zu place%s where functions are left cannot be patched: calls that end there end when the caller goes on",
			c.exits_refused, plural(c.exits_refused));
}

static void say_counts(const struct call_trace_counts *c)
{
	output_say(
		NULL,
		"%llu call%s: %llu recorded, %llu lost, %llu of %zu function%s that were switched off; threads stood %.2f ms at most",
		(unsigned long long)c->called, plural(c->called), (unsigned long long)c->recorded,
		(unsigned long long)c->lost, (unsigned long long)c->switched_off, c->off, plural(c->off),
		(double)c->longest_stop_ns / 1e6);
	if (c->lost)
		output_say(
			NULL,
			"to lose less: choose functions (--function, --not, --min-size), a lower --max-rate, a larger --buffer, or --wait");
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
	say_begun(trace);
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
		say_counts(&counts);
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
					      .selection = { .module = q->in.v,
							     .nmodules = q->in.n,
							     .source = q->source.v,
							     .nsources = q->source.n,
							     .function = q->function.v,
							     .nfunctions = q->function.n,
							     .without = q->without.v,
							     .nwithout = q->without.n,
							     .min_size = q->min_size },
					      .pending = q->pending,
					      .args = q->args,
					      .wait = q->wait,
					      .planner = q->planner,
					      .values = q->values,
					      .max_rate = q->max_rate,
					      .buffer = q->buffer ? q->buffer : default_buffer(),
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

static void free_names(struct trace_ask *q)
{
	free(q->in.v);
	free(q->source.v);
	free(q->function.v);
	free(q->without.v);
	functions_file_deinit(&q->from);
}

static struct wc_error *parse(int argc, char **argv, struct trace_ask *q)
{
	struct wc_error *err;

	*q = (struct trace_ask){ .max_rate = MAX_RATE };
	err = option_parse_launch(argc, argv, options, q, take_word, &q->argv);
	if (!err)
		err = check_request(q);
	if (!q->values.string_max)
		q->values.string_max = STRING_DEFAULT;
	if (!err)
		err = join_names(&q->function, q->from.function, q->from.nfunctions);
	return err ? err : join_names(&q->without, q->from.without, q->from.nwithout);
}

struct wc_error *trace_run_typed(int argc, char **argv, const struct planner_ops *planner)
{
	struct trace_ask q;
	struct wc_error *err = parse(argc, argv, &q);

	q.planner = planner;
	if (!err)
		err = record(&q);
	free_names(&q);
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
	free_names(&q);
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
