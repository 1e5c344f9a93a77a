/* cmd_watch - `watchctl -p PID -v EXPR ...`: the live session. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/cli/request/watch_request.h"

struct request {
	struct watch_ask ask;
	struct output_options output;
	bool quiet, echo, verbose;
};

static const struct option options[] = {
	OPTIONS_IN(struct request, ask, watch_options),
	{ "-o", "--log", "LOG", "record into the new log LOG; accesses and captures are then not printed",
	  COMPLETE_DIRECTORY, NULL, OPTION_TEXT(struct request, output.log) },
	{ "--force", NULL, NULL, "with -o: replace LOG where it exists", 0, NULL,
	  OPTION_FLAG(struct request, output.force) },
	{ "--echo", NULL, NULL, "with -o: print them all the same", 0, NULL,
	  OPTION_FLAG(struct request, echo) },
	{ "--program-output", NULL, "FILE",
	  "the standard output of a launched program goes to FILE; what is printed then has ours",
	  COMPLETE_FILE, NULL, OPTION_TEXT(struct request, output.program_output) },
	{ "--output", NULL, "FILE",
	  "print to FILE (default: standard output; with a launched program, standard error)", COMPLETE_FILE,
	  NULL, OPTION_TEXT(struct request, output.file) },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct request, output.json) },
	{ "--no-stack", NULL, NULL, "do not print the callers", 0, NULL,
	  OPTION_FLAG(struct request, output.print.no_stack) },
	{ "--regs", NULL, NULL, "print the registers, as they are after the access", 0, NULL,
	  OPTION_FLAG(struct request, output.print.regs) },
	{ "--utc", NULL, NULL, "times of day in UTC", 0, NULL,
	  OPTION_FLAG(struct request, output.print.utc) },
	{ "--syntax", NULL, "SYNTAX", "of instructions: intel or att (AT&T)", COMPLETE_WORDS,
	  INSN_SYNTAX_WORDS, OPTION_CHOICE(struct request, output.print.syntax) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct request, output.colour) },
	OPTIONS_IN(struct request, ask, watch_engine_options),
	{ "-q", "--quiet", NULL, "print no accesses and captures: only the tables and the summary", 0, NULL,
	  OPTION_FLAG(struct request, quiet) },
	{ "--verbose", NULL, NULL, "report what is being done", 0, NULL,
	  OPTION_FLAG(struct request, verbose) },
	{ 0 },
};

static volatile sig_atomic_t stop_asked;

static struct wc_error *cmd_watch_check(const struct request *q)
{
	struct wc_error *err = watch_ask_check(&q->ask);

	if (!err && q->output.program_output && !q->ask.monitor.argv)
		err = wc_error_new(WC_EUSAGE, "--program-output needs a program to launch: -- PROGRAM");
	if (!err && q->output.force && !q->output.log)
		err = wc_error_new(WC_EUSAGE, "--force goes with -o LOG, which it replaces");
	if (!err && q->echo && !q->output.log)
		err = wc_error_new(WC_EUSAGE,
				   "--echo goes with -o LOG: without it, accesses are printed anyway");
	return err;
}

static struct wc_error *take_word(void *request, const char *word)
{
	return wc_error_new(WC_EUSAGE,
			    "\"%s\" is neither an option nor a command: variables are named by -v, a "
			    "program to start follows --",
			    word);
}

static struct wc_error *cmd_watch_parse(int argc, char **argv, struct request *q)
{
	struct wc_error *err;

	watch_ask_init(&q->ask);
	err = option_parse_launch(argc, argv, options, q, take_word, &q->ask.monitor.argv);
	return err ? err : cmd_watch_check(q);
}

static struct wc_error *watch(struct request *q, struct output *s)
{
	struct session_limits limits = { .count = q->ask.count, .time_ns = q->ask.time_ns };
	enum session_end end = SESSION_STOPPED;
	struct monitor *m = NULL;
	struct wc_error *err, *close_err;
	const char *unarmed;
	bool uncollected, nothing_recorded;

	if (q->verbose)
		q->ask.monitor.say = output_say;
	limits.stop = q->ask.monitor.stop = &stop_asked;
	limits.tick = output_tick;
	limits.tick_ctx = s;
	err = monitor_open(&q->ask.monitor, s->events, &m);
	if (err) {
		output_discard_log(s);
		return err;
	}
	fflush(s->out);
	ready_tell(&q->ask.ready);
	err = monitor_run(m, &limits, &end);
	s->watched = !err;
	nothing_recorded = err && monitor_failed_at_start(m);
	unarmed = monitor_never_armed(m);
	uncollected = monitor_never_collected(m);
	close_err = monitor_close(m);
	if (nothing_recorded)
		output_discard_log(s);
	if (!err)
		err = watch_verdict(end, unarmed, uncollected);
	if (err && close_err)
		output_say(NULL, "%s", close_err->text);
	return wc_error_first(err, close_err);
}

static struct wc_error *cmd_watch_run(int argc, char **argv)
{
	struct output s = { .stop = &stop_asked };
	struct request q = { 0 };
	struct wc_error *err = cmd_watch_parse(argc, argv, &q);

	if (err)
		return err;
	output_catch_signals(&stop_asked);
	q.output.launched = q.ask.monitor.argv;
	q.output.no_events = q.quiet || (q.output.log && !q.echo);
	q.output.redact = redact_ask_rules(&q.ask.redact);
	err = output_open(&q.output, &s);
	if (!err)
		err = watch(&q, &s);
	return wc_error_first(err, output_close(&s, !err || s.watched || err->kind == WC_ETARGET ||
							    err->kind == WC_ENOTSUP));
}

const struct command cmd_watch = {
	.name = "watch",
	.args = "-p PID -v EXPR [-s SIZE] [-r|-w|-rw|-x] [-i 0..3] [filters] [options]\n"
		"-v EXPR [-s SIZE] [-r|-w|-rw|-x] [filters] [options] -- PROGRAM [ARGS]\n"
		"-p PID --tags [-v EXPR ...] [options]\n"
		"--tags [-v EXPR ...] [options] -- PROGRAM [ARGS]",
	.summary = "log every access to a variable of a running program, or of one that it starts",
	.help = "EXPR: flag, file.c:flag, libfoo.so:flag, server.stats.hits, table[3].state, "
		"head->next->len,\n"
		"*p, ns::object.member, 0x7ffe12345678. Ctrl-C ends the watch and leaves the program as it "
		"was.\n",
	.options = options,
	.operand = COMPLETE_NOTHING,
	.run = cmd_watch_run,
};
