#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/colour.h"
#include "watchctl/cli/command.h"
#include "watchctl/view/replay.h"
#include "watchctl/view/report.h"

struct request {
	const char *log;
	bool json;
	bool has_last;
	uint64_t last; /* print only that many accesses, the last ones */
	struct print_options print;
	struct report_options report;
};

static const struct option options[] = {
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL },
	{ "--sites", NULL, NULL, "only the table by access site and the summary", 0, NULL },
	{ "--events", NULL, NULL, "no table: only the accesses and the summary", 0, NULL },
	{ "-n", NULL, "COUNT", "only the last COUNT accesses (the table counts them all)", COMPLETE_NOTHING,
	  NULL },
	{ "--watch", NULL, "NAME", "only this watch", COMPLETE_NOTHING, NULL },
	{ "--no-stack", NULL, NULL, "do not print the callers", 0, NULL },
	{ "--regs", NULL, NULL, "print the registers, as they are after the access", 0, NULL },
	{ "--utc", NULL, NULL, "times of day in UTC", 0, NULL },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS },
	{ 0 },
};

static struct wc_error *take_option(struct request *q, const struct option_match *m, bool *only_sites,
				    bool *only_events, unsigned int *colour)
{
	if (option_is(m, "--json"))
		q->json = true;
	else if (option_is(m, "--sites"))
		*only_sites = true;
	else if (option_is(m, "--events"))
		*only_events = true;
	else if (option_is(m, "--watch"))
		q->report.watch = m->value;
	else if (option_is(m, "--no-stack"))
		q->print.no_stack = true;
	else if (option_is(m, "--regs"))
		q->print.regs = true;
	else if (option_is(m, "--utc"))
		q->print.utc = true;
	else if (option_is(m, "--color"))
		return option_choice(m, colour);
	else if (option_is(m, "-n")) {
		q->has_last = true;
		return option_number(m, 0, UINT64_MAX, &q->last);
	}
	return NULL;
}

static struct wc_error *take_word(struct request *q, const char *word)
{
	if (q->log)
		return wc_error_new(WC_EUSAGE, "report reads one log; \"%s\" is one too many", word);
	q->log = word;
	return NULL;
}

static struct wc_error *parse(int argc, char **argv, struct request *ret)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = options };
	bool only_sites = false, only_events = false;
	unsigned int colour = COLOUR_AUTO;
	struct request q = { 0 };
	struct option_match m;
	struct wc_error *err;

	do {
		err = option_next(&scan, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = take_option(&q, &m, &only_sites, &only_events, &colour);
		else if (!err && m.kind == OPTION_WORD)
			err = take_word(&q, m.value);
		while (!err && m.kind == OPTION_DASHES && scan.next < argc)
			err = take_word(&q, argv[scan.next++]);
		if (err)
			return err;
	} while (m.kind != OPTION_END);

	if (!q.log)
		return wc_error_new(WC_EUSAGE, "report needs the name of a log: watchctl report LOG");
	if (only_sites && only_events)
		return wc_error_new(WC_EUSAGE,
				    "--sites and --events exclude each other: the default is both");
	q.report.no_events = only_sites;
	q.report.no_sites = only_events;
	q.print.colour = !q.json && colour_is_wanted(colour, STDOUT_FILENO);
	q.print.width = terminal_width(STDOUT_FILENO);
	*ret = q;
	return NULL;
}

/* Reads the whole of @q's log once and prints what is wanted to @out. */
static struct wc_error *pass(const struct request *q, FILE *out, struct replay_ending *ending,
			     uint64_t *accesses)
{
	unsigned int flags = (q->print.no_stack || q->report.no_events ? 0 : ANNOTATE_STACK) | ANNOTATE_TEXT;
	scoped(annotate_freep) struct annotate *a = annotate_new(NULL, flags);
	scoped(printer_freep) struct printer *p =
		q->json ? print_json_new(out, &q->print) : print_text_new(out, &q->print);
	scoped(report_freep) struct report *r = NULL;
	struct wc_error *err;
	const char *names;

	if (!a || !p || !(r = report_new(a, p, &q->report)))
		return &wc_enomem;
	err = replay(q->log, annotate_sink(a), out, ending);
	if (err)
		return err;
	if (!report_watch_is_known(r, &names))
		return wc_error_new(WC_ENAME, "the log %s has no watch \"%s\"; %s%s", q->log, q->report.watch,
				    names ? "its watches are: " : "it has none", names ? names : "");
	report_finish(r);
	*accesses = report_accesses(r);
	return NULL;
}

/* How many accesses there are to print, so that the last ones can be told. */
static struct wc_error *count(const struct request *q, uint64_t *ret)
{
	scoped(fclosep) FILE *nowhere = fopen("/dev/null", "w");
	struct request quiet = *q;
	struct replay_ending ending;

	if (!nowhere)
		return wc_error_new(WC_EFAIL, "cannot open /dev/null");
	quiet.report.no_events = true;
	quiet.report.no_sites = true;
	return pass(&quiet, nowhere, &ending, ret);
}

static struct wc_error *run(int argc, char **argv)
{
	struct replay_ending ending = { 0 };
	struct wc_error *err;
	struct request q;
	uint64_t n;

	err = parse(argc, argv, &q);
	if (!err && q.has_last && !q.report.no_events) {
		err = count(&q, &n);
		if (!err)
			q.report.skip = n > q.last ? n - q.last : 0;
	}
	if (!err)
		err = pass(&q, stdout, &ending, &n);
	if (err || !ending.why || ferror(stdout))
		return err;
	fflush(stdout);
	return wc_error_new(WC_ELOG,
			    "the log %s is not whole: the last %" PRIu64 " bytes were ignored, because %s",
			    q.log, ending.ignored, ending.why);
}

const struct command cmd_report = {
	.name = "report",
	.args = "[options] LOG",
	.summary = "print a recorded log: the accesses, a table by access site, a summary",
	.help = "A log that was cut short is printed as far as it is whole; the exit status is then 8.\n"
		"babeltrace2 LOG prints the raw events.\n",
	.options = options,
	.operand = COMPLETE_DIRECTORY,
	.run = run,
};
