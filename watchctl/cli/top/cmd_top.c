/* cmd_top - `watchctl top`: the live view, of a process, a program that it starts, or a log. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/cli/top/top_screen.h"
#include "watchctl/cli/top/top_show.h"
#include "watchctl/view/print/printer.h"

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
};

static const struct option options[] = {
	WATCH_TARGET_OPTION,
	WATCH_EXPR_OPTION,
	WATCH_FILTER_OPTIONS,
	WATCH_LIMIT_OPTIONS,
	{ "-o", "--log", "LOG",
	  "record into the new log LOG, which is kept; otherwise the recording is removed with the display",
	  COMPLETE_DIRECTORY, NULL },
	{ "--delay", NULL, "SECONDS", "between updates, 0.1 to 3600 (default 0.5; without a screen 2)",
	  COMPLETE_NOTHING, NULL },
	{ "--json", NULL, NULL, "no screen: one JSON object a line, every SECONDS", 0, NULL },
	{ "--program-output", NULL, "FILE",
	  "write the output of the launched program to FILE (default: it is discarded)", COMPLETE_FILE,
	  NULL },
	{ "--syntax", NULL, "SYNTAX", "of instructions: intel or att (AT&T)", COMPLETE_WORDS,
	  INSN_SYNTAX_WORDS },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS },
	WATCH_ENGINE_OPTIONS,
	{ 0 },
};

static volatile sig_atomic_t stop_asked;

static struct wc_error *take_delay(const struct option_match *m, uint64_t *ret)
{
	char *end;
	double seconds = strtod(m->value, &end);

	if (end == m->value || *end || !(seconds >= DELAY_MIN && seconds <= DELAY_MAX))
		return wc_error_new(WC_EUSAGE, "--delay %s: give a number of seconds from %g to %g, like 0.5",
				    m->value, DELAY_MIN, DELAY_MAX);
	*ret = (uint64_t)(seconds * 1e9);
	return NULL;
}

static struct wc_error *take_option(struct request *q, const struct option_match *m)
{
	bool taken;

	if (option_is(m, "--delay"))
		return take_delay(m, &q->delay_ns);
	if (option_is(m, "--syntax"))
		return option_choice(m, &q->syntax);
	if (option_is(m, "--color"))
		return option_choice(m, &q->colour);
	if (option_is(m, "--json")) {
		q->json = true;
	} else {
		/* All others are about a recording. */
		q->asks = true;
		if (option_is(m, "-o"))
			q->record = m->value;
		else if (option_is(m, "--program-output"))
			q->program_output = m->value;
		else
			return watch_ask_take(&q->ask, m, &taken);
	}
	return NULL;
}

static struct wc_error *cmd_top_check(const struct request *q)
{
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

static struct wc_error *cmd_top_parse(int argc, char **argv, struct request *ret)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = options };
	struct request q = { 0 };
	struct option_match m;
	struct wc_error *err;

	watch_ask_init(&q.ask);
	do {
		err = option_next(&scan, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = take_option(&q, &m);
		else if (!err && m.kind == OPTION_WORD)
			err = option_one_log(&q.log, m.value, "top shows");
		if (err)
			return err;
	} while (m.kind == OPTION_FOUND || m.kind == OPTION_WORD);
	if (m.kind == OPTION_DASHES) {
		if (scan.next == argc)
			return wc_error_new(WC_EUSAGE, "the program to start is missing after --");
		q.ask.monitor.argv = argv + scan.next;
	}
	err = cmd_top_check(&q);
	if (!err)
		*ret = q;
	return err;
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
	const char *why;
	uint64_t ignored = site_feed_ignored(feed, &why);

	if (!ignored || !q->log)
		return NULL;
	return wc_error_new(WC_ELOG,
			    "the log %s is not whole: the last %" PRIu64 " bytes were ignored, because %s",
			    q->log, ignored, why);
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

static struct wc_error *cmd_top_run(int argc, char **argv)
{
	scoped(top_session_closep) struct top_session *session = NULL;
	scoped(site_feed_closep) struct site_feed *feed = NULL;
	struct top_show o = { .stop = &stop_asked };
	struct request q;
	struct wc_error *err = cmd_top_parse(argc, argv, &q);
	bool lines;

	if (err)
		return err;
	output_catch_signals(&stop_asked);
	q.ask.monitor.stop = &stop_asked;
	if (!q.log)
		err = top_session_start(&q.ask, q.record, q.program_output, &session);
	if (!err)
		err = site_feed_open(session ? top_session_log(session) : q.log, q.syntax, &feed);
	if (err)
		return err;
	o.feed = feed;
	o.session = session;
	err = show(&q, &o, &lines);
	return wc_error_first(err, end(&q, &o, lines));
}

const struct command cmd_top = {
	.name = "top",
	.args = "-p PID -v EXPR [-s SIZE] [-r|-w|-rw|-x] [filters] [options]\n"
		"-v EXPR [-s SIZE] [-r|-w|-rw|-x] [filters] [options] -- PROGRAM [ARGS]\n"
		"[--delay SECONDS] [--json] LOG",
	.summary =
		"show which code accesses a variable now: a live table of sites, with rates, values, stacks",
	.help = "LOG: a complete log, or one that is being recorded, which is followed.\nKeys: arrows move, Enter "
		"opens a site, s sorts, / filters, f freezes, ? lists all, q ends. Without a usable\nterminal, tables "
		"are printed instead.\n",
	.options = options,
	.operand = COMPLETE_DIRECTORY,
	.run = cmd_top_run,
};
