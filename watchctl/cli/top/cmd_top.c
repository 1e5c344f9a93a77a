/* cmd_top - `watchctl top`: the live view of accesses, of a process, a program that it starts, or a log; of calls, of a process. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/cli/request/trace_choice.h"
#include "watchctl/cli/top/top_calls.h"
#include "watchctl/cli/top/top_screen.h"
#include "watchctl/cli/top/top_show.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/table/call_times.h"

#define DELAY_SCREEN_NS 500000000u
#define DELAY_LINES_NS 2000000000u
#define DELAY_MIN 0.1
#define DELAY_MAX 3600.0

struct request {
	struct watch_ask ask;
	const char *log;	    /* to show; NULL: a new recording */
	const char *record;	    /* the log that is made; NULL: one that does not stay */
	const char *program_output; /* NULL: nobody sees it */
	uint64_t delay_ns;	    /* 0: the default */
	bool json, asks;	    /* asks: for a recording */
	unsigned int colour, syntax;
	/* Of --calls: */
	bool calls, wait;
	struct trace_choice choice;
	unsigned int sort;	   /* enum call_times_order */
	const char *calls_option;  /* that goes with --calls alone; NULL: none was given */
	const char *access_option; /* that has no meaning there; likewise */
};

static volatile sig_atomic_t stop_asked;

static struct wc_error *set_delay(const struct option_match *m, void *to)
{
	char *end;
	double seconds = strtod(m->value, &end);

	if (end == m->value || *end || !(seconds >= DELAY_MIN && seconds <= DELAY_MAX))
		return wc_error_new(WC_EUSAGE, "--delay %s: give a number of seconds from %g to %g, like 0.5",
				    m->value, DELAY_MIN, DELAY_MAX);
	*(uint64_t *)to = (uint64_t)(seconds * 1e9);
	return NULL;
}

/* Of the options about what is recorded, those that calls have, too. */
static bool fits_calls(const char *option)
{
	static const char *const fit[] = { "-p", "-n", "-t", "--pending", "--ready-fd" };

	for (size_t i = 0; i < sizeof(fit) / sizeof(fit[0]); i++)
		if (!strcmp(option, fit[i]))
			return true;
	return false;
}

/* Options about a recording, as most are. */
static struct wc_error *note_recording(const struct option_match *m, void **to)
{
	struct request *q = *to;

	q->asks = true;
	if (!fits_calls(m->option->name))
		q->access_option = m->option->name;
	return NULL;
}

/* Options about how accesses are shown. */
static struct wc_error *note_accesses(const struct option_match *m, void **to)
{
	struct request *q = *to;

	q->access_option = m->option->name;
	return NULL;
}

static struct wc_error *note_calls(const struct option_match *m, void **to)
{
	struct request *q = *to;

	if (strcmp(m->option->name, "--calls") != 0)
		q->calls_option = m->option->name;
	return NULL;
}

static const struct option recording_options[] = {
	OPTIONS_IN(struct request, ask, watch_options),
	{ "-o", "--log", "LOG",
	  "record into the new log LOG, which is kept; otherwise the recording is removed with the display",
	  COMPLETE_DIRECTORY, NULL, OPTION_TEXT(struct request, record) },
	{ 0 },
};

static const struct option calls_options[] = {
	{ "--calls", NULL, NULL,
	  "show calls of functions, not accesses: a row for each function of the program itself", 0, NULL,
	  OPTION_FLAG(struct request, calls) },
	OPTIONS_IN(struct request, choice, trace_choice_options),
	{ "--wait", NULL, NULL,
	  "threads that find no room wait until there is some, so that no call is lost: a program that makes many becomes slower",
	  0, NULL, OPTION_FLAG(struct request, wait) },
	{ "--sort", NULL, "COLUMN",
	  "begin with this order: calls, rate, total (the default), self, mean, p99, longest or name",
	  COMPLETE_WORDS, CALL_TIMES_WORDS, OPTION_CHOICE(struct request, sort) },
	{ 0 },
};

static const struct option syntax_options[] = {
	{ "--syntax", NULL, "SYNTAX", "of instructions: intel or att (AT&T)", COMPLETE_WORDS,
	  INSN_SYNTAX_WORDS, OPTION_CHOICE(struct request, syntax) },
	{ 0 },
};

static const struct option program_options[] = {
	{ "--program-output", NULL, "FILE",
	  "write the output of the launched program to FILE (default: it is discarded)", COMPLETE_FILE, NULL,
	  OPTION_TEXT(struct request, program_output) },
	{ 0 },
};

static const struct option engine_options[] = {
	OPTIONS_IN(struct request, ask, watch_engine_options),
	{ 0 },
};

static const struct option options[] = {
	{ .more = recording_options, .find = note_recording },
	{ .more = calls_options, .find = note_calls },
	{ "--delay", NULL, "SECONDS", "between updates, 0.1 to 3600 (default 0.5; without a screen 2)",
	  COMPLETE_NOTHING, NULL, .set = set_delay, .at = offsetof(struct request, delay_ns) },
	{ "--json", NULL, NULL, "no screen: one JSON object a line, every SECONDS", 0, NULL,
	  OPTION_FLAG(struct request, json) },
	{ .more = program_options, .find = note_recording },
	{ .more = syntax_options, .find = note_accesses },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct request, colour) },
	{ .more = engine_options, .find = note_recording },
	{ 0 },
};

static struct wc_error *check_calls(const struct request *q)
{
	if (q->log)
		return wc_error_new(
			WC_EUSAGE,
			"--calls shows a running process, -p PID; watchctl report shows the calls of the log %s",
			q->log);
	if (q->ask.monitor.argv)
		return wc_error_new(
			WC_EUSAGE,
			"--calls shows a running process, -p PID; watchctl trace -q -- PROGRAM starts one");
	if (q->access_option)
		return wc_error_new(WC_EUSAGE, "%s is about accesses, and has no meaning with --calls",
				    q->access_option);
	if (!q->ask.monitor.pid)
		return wc_error_new(WC_EUSAGE, "--calls needs a running process: -p PID");
	if (q->json && q->delay_ns)
		return wc_error_new(
			WC_EUSAGE,
			"--delay is the time between pictures: --calls --json prints one table, at the end");
	return NULL;
}

static struct wc_error *cmd_top_check(const struct request *q)
{
	if (q->calls)
		return check_calls(q);
	if (q->calls_option)
		return wc_error_new(WC_EUSAGE, "%s goes with --calls", q->calls_option);
	if (q->log && q->asks)
		return wc_error_new(
			WC_EUSAGE,
			"top shows the log %s as it is: options about what is recorded need -p PID or -- PROGRAM",
			q->log);
	if (q->log)
		return NULL;
	if (q->program_output && !q->ask.monitor.argv)
		return wc_error_new(WC_EUSAGE, "--program-output needs a program to launch: -- PROGRAM");
	if (!q->asks && !q->ask.monitor.argv)
		return wc_error_new(WC_EUSAGE,
				    "nothing to show: give -p PID -v EXPR, -v EXPR -- PROGRAM, or a log");
	return watch_ask_check(&q->ask);
}

static struct wc_error *take_log(void *request, const char *word)
{
	struct request *q = request;

	return option_one_log(&q->log, word, "top shows");
}

static struct wc_error *cmd_top_parse(int argc, char **argv, struct request *q)
{
	struct wc_error *err;

	watch_ask_init(&q->ask);
	trace_choice_init(&q->choice);
	q->sort = CALL_TIMES_TOTAL;
	err = option_parse_launch(argc, argv, options, q, take_log, &q->ask.monitor.argv);
	if (!err)
		err = cmd_top_check(q);
	return err ? err : trace_choice_finish(&q->choice);
}

static uint64_t delay_of(const struct request *q, bool screen)
{
	return q->delay_ns ? q->delay_ns : screen ? DELAY_SCREEN_NS : DELAY_LINES_NS;
}

static struct wc_error *show(const struct request *q, struct top_show *o, bool *lines)
{
	const char *why;

	*lines = true;
	o->delay_ns = delay_of(q, false);
	if (q->json)
		return top_show_lines(o, true);
	if (!top_screen_open(colour_is_wanted(q->colour, STDOUT_FILENO), &why)) {
		output_say(NULL, "plain lines instead of a screen, because %s", why);
		return top_show_lines(o, false);
	}
	*lines = false;
	o->delay_ns = delay_of(q, true);
	return top_show_screen(o);
}

/* What sums up, on the terminal as it was before, or behind the last table. */
static struct wc_error *sum_up(const struct request *q, struct site_feed *feed, bool lines)
{
	/* A terminal that has no screen for us may not know colours either. */
	unsigned int colour = lines && q->colour == COLOUR_AUTO ? COLOUR_NEVER : q->colour;
	struct print_options plain = { .colour = colour_is_wanted(colour, STDOUT_FILENO),
				       .width = terminal_width(STDOUT_FILENO) };
	scoped(printer_freep) struct printer *p =
		q->json ? print_json_new(stdout, &plain) : print_text_new(stdout, &plain);
	const struct site_stats *s = site_feed_stats(feed);
	struct view view;
	const char *why;
	uint64_t missed = site_feed_missed(feed, &why);
	size_t i;

	if (!p)
		return &wc_enomem;
	view = printer_view(p);
	for (i = 0; i < s->nwatches; i++)
		if (s->watch[i].has_summary)
			view.ops->summary(view.ctx, &s->watch[i].summary);
	fflush(stdout);
	if (missed)
		output_say(NULL, "%" PRIu64 " bytes of the log were not read, because %s", missed, why);
	return NULL;
}

static struct wc_error *broken_log(const struct request *q, struct site_feed *feed)
{
	struct log_damage d;

	site_feed_damage(feed, &d);
	/* A recorder that was faster than we are has not damaged its log. */
	if (d.missed == d.outrun)
		d.why_missed = NULL;
	if (!q->log)
		return NULL;
	return end_of_log(q->log, &d);
}

static struct wc_error *end(const struct request *q, struct top_show *o, bool lines)
{
	struct wc_error *err = o->session ? top_session_stop(o->session) : NULL, *later;

	/* Of our own recording, all is reported; of somebody else's, what was read. */
	later = site_feed_finish(o->feed, o->session != NULL);
	top_show_session(o);
	if (!later && lines)
		top_show_last(o, q->json);
	if (!later)
		later = sum_up(q, o->feed, lines);
	if (!later)
		later = broken_log(q, o->feed);
	return wc_error_first(err, later);
}

static struct wc_error *run_calls(struct request *q)
{
	const struct top_calls_ask ask = { .pid = q->ask.monitor.pid,
					   .choice = &q->choice,
					   .pending = q->ask.monitor.pending,
					   .wait = q->wait,
					   .count = q->ask.count,
					   .time_ns = q->ask.time_ns,
					   .delay_ns = delay_of(q, true),
					   .sort = q->sort,
					   .json = q->json,
					   .colour = q->colour,
					   .ready = &q->ask.ready,
					   .stop = &stop_asked };

	output_catch_signals(&stop_asked);
	return top_calls_run(&ask);
}

static struct wc_error *run_accesses(struct request *q)
{
	scoped(top_session_closep) struct top_session *session = NULL;
	scoped(site_feed_closep) struct site_feed *feed = NULL;
	struct top_show o = { .stop = &stop_asked };
	struct wc_error *err = NULL;
	bool lines;

	output_catch_signals(&stop_asked);
	q->ask.monitor.stop = &stop_asked;
	if (!q->log)
		err = top_session_start(&q->ask, q->record, q->program_output, &session);
	if (!err)
		err = site_feed_open(session ? top_session_log(session) : q->log, q->syntax, &feed);
	if (err)
		return err;
	ready_tell(&q->ask.ready);
	o.feed = feed;
	o.session = session;
	err = show(q, &o, &lines);
	return wc_error_first(err, end(q, &o, lines));
}

static struct wc_error *cmd_top_run(int argc, char **argv)
{
	struct request q = { 0 };
	struct wc_error *err = cmd_top_parse(argc, argv, &q);

	if (!err)
		err = q.calls ? run_calls(&q) : run_accesses(&q);
	trace_choice_deinit(&q.choice);
	return err;
}

const struct command cmd_top = {
	.name = "top",
	.args = "-p PID -v EXPR [-s SIZE] [-r|-w|-rw|-x] [filters] [options]\n"
		"-v EXPR [-s SIZE] [-r|-w|-rw|-x] [filters] [options] -- PROGRAM [ARGS]\n"
		"-p PID --calls [--in MODULE] [--function GLOB] [--not GLOB] [--sort COLUMN] [-t SECONDS] [options]\n"
		"[--delay SECONDS] [--json] LOG",
	.summary =
		"show which code accesses a variable now: a live table of sites, with rates, values, stacks",
	.help = "--calls: which functions are called how often, and how long they take. Without a terminal, the table\n"
		"is printed once, at the end.\nLOG: a complete log, or one that is being recorded, which is followed.\nKeys: arrows move, Enter "
		"opens a site, s sorts, / filters, f freezes, ? lists all, q ends. Without a usable\nterminal, tables "
		"are printed instead.\n",
	.options = options,
	.operand = COMPLETE_DIRECTORY,
	.run = cmd_top_run,
};
