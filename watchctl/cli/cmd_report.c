#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/progress.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/options/time_options.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/cli/output/log_operand.h"
#include "watchctl/cli/output/log_settle.h"
#include "watchctl/cli/output/redact_options.h"
#include "watchctl/cli/report_html.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/reorder.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/event/event_choice.h"
#include "watchctl/view/export/export_stacks.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/print/report.h"

#define MIN_PERCENT 0.5

struct request {
	const char *log;
	const char *html; /* write a page there; NULL: print */
	bool no_source;
	bool json, folded, tree;
	bool only_tables, only_events, calls;
	bool has_last;
	uint64_t last;	  /* print only that many accesses and captures, the last ones */
	const char **tag; /* as many as there are arguments */
	unsigned int colour;
	struct time_ask time;
	struct event_choice choice; /* of the log: a watch, a thread, a time */
	struct redact_ask redact;
	struct print_options print;
	struct report_options report;
};

static struct wc_error *set_percent(const struct option_match *m, void *to)
{
	char *end;
	double value = strtod(m->value, &end);

	if (*end || end == m->value || m->value[0] < '0' || m->value[0] > '9' || !(value <= 100))
		return wc_error_new(WC_EUSAGE,
				    "option --min wants a share from 0 to 100, in percent, not \"%s\"",
				    m->value);
	*(double *)to = value;
	return NULL;
}

static struct wc_error *set_last(const struct option_match *m, void *to)
{
	struct request *q = to;

	q->has_last = true;
	return option_number(m, 0, UINT64_MAX, &q->last);
}

static struct wc_error *add_tag(const struct option_match *m, void *to)
{
	struct request *q = to;

	q->tag[q->choice.ntags++] = m->value;
	return NULL;
}

static const struct option options[] = {
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct request, json) },
	{ "--sites", NULL, NULL, "only the tables by access site, tag and function, and the summary", 0, NULL,
	  OPTION_FLAG(struct request, only_tables) },
	{ "--events", NULL, NULL, "no tables: only the accesses, captures and calls, and the summary", 0,
	  NULL, OPTION_FLAG(struct request, only_events) },
	{ "--calls", NULL, NULL, "of a step recording, the calls as a tree too (text; --json has them)", 0,
	  NULL, OPTION_FLAG(struct request, calls) },
	{ "--function", NULL, "PATTERN", "only calls of such functions, with all inside of them (f, 'net_*')",
	  COMPLETE_NOTHING, NULL, OPTION_TEXT(struct request, choice.function) },
	{ "--depth", NULL, "N", "only N levels of calls", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct request, choice.depth, 1, UINT32_MAX) },
	{ "--thread", NULL, "THREAD", "only what that thread did (its number or name)", COMPLETE_NOTHING,
	  NULL, OPTION_TEXT(struct request, choice.thread) },
	OPTIONS_IN(struct request, time, time_options),
	{ "--instructions", NULL, NULL, "each recorded instruction too (text; --json has them)", 0, NULL,
	  OPTION_FLAG(struct request, report.instructions) },
	{ "-n", NULL, "COUNT", "only the last COUNT accesses, captures and calls (the tables count them all)",
	  COMPLETE_NOTHING, NULL, .set = set_last },
	{ "--watch", NULL, "NAME", "only this watch, and the tags named", COMPLETE_NOTHING, NULL,
	  OPTION_TEXT(struct request, choice.watch) },
	{ "--tag", NULL, "TAG", "only this tag (a name or a number; repeatable), as a tree of its stacks",
	  COMPLETE_NOTHING, NULL, .set = add_tag },
	{ "--tree", NULL, NULL, "stacks by count, as a tree, of tags, of watches and of calls", 0, NULL,
	  OPTION_FLAG(struct request, tree) },
	{ "--inverted", NULL, NULL, "the tree begins with the innermost frames: who calls", 0, NULL,
	  OPTION_FLAG(struct request, report.inverted) },
	{ "--min", NULL, "PERCENT", "leave out branches below that share of the tree (0.5)", COMPLETE_NOTHING,
	  NULL, .set = set_percent, .at = offsetof(struct request, print.min_percent) },
	{ "--folded", NULL, NULL, "a line \"outer;inner;... count\" for each stack, for flame graphs", 0,
	  NULL, OPTION_FLAG(struct request, folded) },
	{ "--before", NULL, "TAG", "with each access the thread's last capture under this tag",
	  COMPLETE_NOTHING, NULL, OPTION_TEXT(struct request, choice.before) },
	{ "--no-stack", NULL, NULL, "do not print the callers", 0, NULL,
	  OPTION_FLAG(struct request, print.no_stack) },
	{ "--regs", NULL, NULL, "print the registers, as they are after the access", 0, NULL,
	  OPTION_FLAG(struct request, print.regs) },
	{ "--html", NULL, "FILE",
	  "write a page to look at in a browser: values over time, sites, stacks, accesses; or calls; or what led to what",
	  COMPLETE_FILE, NULL, OPTION_TEXT(struct request, html) },
	{ "--no-source", NULL, NULL, "with --html: put no lines of source files into the page", 0, NULL,
	  OPTION_FLAG(struct request, no_source) },
	OPTIONS_IN(struct request, redact, redact_options),
	{ "--utc", NULL, NULL, "times of day in UTC", 0, NULL, OPTION_FLAG(struct request, print.utc) },
	{ "--syntax", NULL, "SYNTAX", "of instructions: intel or att (AT&T)", COMPLETE_WORDS,
	  INSN_SYNTAX_WORDS, OPTION_CHOICE(struct request, print.syntax) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct request, colour) },
	{ 0 },
};

static struct wc_error *take_log(void *request, const char *word)
{
	struct request *q = request;

	return option_one_log(&q->log, word, "report reads");
}

/* The page has everything in it, and is narrowed down where it is looked at. */
static struct wc_error *check_html(const struct request *q)
{
	const struct report_options *r = &q->report;

	if (!q->html)
		return q->no_source ? wc_error_new(WC_EUSAGE, "--no-source goes with --html") : NULL;
	if (q->json || q->folded || q->tree || q->only_tables || q->only_events || q->calls || q->has_last ||
	    q->choice.watch || q->choice.ntags || q->choice.before || time_is_asked(&q->time) ||
	    r->inverted || q->print.no_stack || q->print.regs)
		return wc_error_new(WC_EUSAGE,
				    "--html writes a page of the whole log, to be filtered there: of the "
				    "other options it goes only with --no-source");
	return NULL;
}

/* Of the things that can be printed, which were asked for. */
static struct wc_error *choose_form(struct request *q)
{
	bool stacks = q->tree || q->folded;

	if (q->only_tables && q->only_events)
		return wc_error_new(WC_EUSAGE,
				    "--sites and --events exclude each other: the default is both");
	if (stacks && (q->only_tables || q->only_events))
		return wc_error_new(WC_EUSAGE, "%s prints stacks by count; it excludes --sites and --events",
				    q->folded ? "--folded" : "--tree");
	if (q->folded && (q->json || q->tree))
		return wc_error_new(WC_EUSAGE,
				    "--folded is a form of its own; it excludes --json and --tree");
	if (q->choice.before && (stacks || q->only_tables))
		return wc_error_new(WC_EUSAGE, "--before adds something to each access, which %s leaves out",
				    q->folded ? "--folded"
				    : q->tree ? "--tree"
					      : "--sites");
	if (q->choice.before && q->choice.ntags && !q->choice.watch)
		return wc_error_new(WC_EUSAGE,
				    "--before adds something to each access, which --tag leaves out "
				    "(--watch NAME chooses a watch as well)");
	if (q->choice.ntags && !q->only_tables && !q->only_events && !q->choice.before)
		stacks = true;
	if (q->report.inverted && !stacks)
		return wc_error_new(WC_EUSAGE, "--inverted turns a tree: it needs --tag or --tree");
	q->report.stacks = stacks;
	q->report.no_events = stacks || q->only_tables;
	q->report.no_tables = stacks || q->only_events;
	q->report.calls = (q->json || q->calls || q->only_events) && !q->report.no_events;
	q->report.instructions |= q->json;
	q->report.merge = q->json ? MERGE_PLACES : q->folded ? MERGE_MODULES : MERGE_FUNCTIONS;
	q->print.folded_names = q->choice.ntags + (q->choice.watch != NULL) != 1;
	return NULL;
}

static struct wc_error *cmd_report_parse(int argc, char **argv, struct request *q)
{
	struct wc_error *err;

	q->colour = COLOUR_AUTO;
	q->print.min_percent = MIN_PERCENT;
	q->tag = calloc(argc + 1, sizeof(*q->tag));
	if (!q->tag)
		return &wc_enomem;
	q->choice.tag = q->tag;
	err = option_parse(argc, argv, options, q, take_log);
	if (err)
		return err;
	if (!q->log)
		return wc_error_new(WC_EUSAGE, "report needs the name of a log: watchctl report LOG");
	/* What narrows the calls down asks for them as well. */
	q->calls |= q->report.instructions || q->choice.depth || q->choice.function || q->choice.thread;
	q->print.before = q->choice.before;
	q->print.colour = !q->json && colour_is_wanted(q->colour, STDOUT_FILENO);
	q->print.width = terminal_width(STDOUT_FILENO);
	q->choice.may_have_no_calls = true;
	err = check_html(q);
	if (!err)
		err = choose_form(q);
	if (!err)
		err = log_operand_open(&q->log);
	return err ? err : time_ask_choose(&q->time, q->log, q->print.utc, &q->choice);
}

static struct printer *new_printer(const struct request *q, FILE *out)
{
	return q->folded ? print_folded_new(out, &q->print)
	       : q->json ? print_json_new(out, &q->print)
			 : print_text_new(out, &q->print);
}

/* What annotate has to find out for that. */
static unsigned int wanted_facts(const struct request *q)
{
	bool stack = q->report.stacks || q->choice.before || !(q->print.no_stack || q->report.no_events);

	return (stack ? ANNOTATE_STACK : 0) | ANNOTATE_TEXT | (q->report.stacks ? ANNOTATE_NO_VALUES : 0) |
	       (q->report.calls && !q->report.no_events ? ANNOTATE_CALLS : 0);
}

/* Passes events on, and what went wrong in choosing them. */
struct chosen {
	struct event_sink to;
	struct event_chooser *chooser;
};

static struct wc_error *chosen_put(void *ctx, const struct trace_event *e)
{
	struct chosen *c = ctx;
	struct wc_error *err = c->to.put(c->to.ctx, e);

	return err ? err : event_chooser_take_error(c->chooser);
}

static struct wc_error *feed(const struct request *q, struct annotate *a, struct event_chooser *chooser,
			     FILE *out, struct replay_ending *ending)
{
	/* Where events are printed to a terminal, they show that it goes on. */
	bool shown = !isatty(STDOUT_FILENO);
	struct chosen chosen = { annotate_sink(a), chooser };
	const struct event_sink sink = { chosen_put, &chosen };
	scoped(reorder_freep) struct reorder *order = NULL;
	scoped(progress_end) struct progress progress;
	struct redact_rules redact = redact_ask_rules(&q->redact);
	struct wc_error *err;

	progress_begin(&progress, "reading the log");
	if (q->report.no_events)
		return replay_redacted(q->log, &redact, sink, out, &progress, ending);
	order = reorder_new(sink);
	if (!order)
		return &wc_enomem;
	err = replay_redacted(q->log, &redact, reorder_sink(order), out, shown ? &progress : NULL, ending);
	return err ? err : reorder_flush(order);
}

/* Reads the whole of @q's log once and prints what is wanted to @out. */
static struct wc_error *pass(const struct request *q, FILE *out, struct replay_ending *ending,
			     uint64_t *events)
{
	scoped(annotate_freep) struct annotate *a = annotate_new(NULL, wanted_facts(q));
	scoped(printer_freep) struct printer *p = new_printer(q, out);
	scoped(export_stacks_deinit) struct export_stacks calls;
	const struct view counter = export_stacks_view(&calls);
	struct report_options form = q->report;
	scoped(report_freep) struct report *r = NULL;
	scoped(event_chooser_freep) struct event_chooser *chooser = NULL;
	struct wc_error *err;

	form.is_part = event_choice_is_part(&q->choice);
	export_stacks_init(&calls);
	calls.trees.merge = form.merge;
	calls.trees.inverted = form.inverted;
	if (form.stacks) {
		form.call_counter = &counter;
		form.call_stacks = &calls.trees;
	}
	if (!a || !p || !(r = report_new(a, p, &form)) ||
	    !(chooser = event_chooser_new(&q->choice, report_view(r))))
		return &wc_enomem;
	annotate_set_syntax(a, q->print.syntax);
	annotate_add_view(a, event_chooser_view(chooser));
	err = feed(q, a, chooser, out, ending);
	if (!err)
		err = event_chooser_check(chooser, log_operand_name(q->log));
	if (err)
		return err;
	report_finish(r);
	*events = report_events(r);
	/* The other forms say so themselves. */
	if (q->folded && report_lost(r))
		fprintf(stderr,
			"watchctl: %" PRIu64
			" captures or accesses were lost in the recording: their stacks are missing here\n",
			report_lost(r));
	return NULL;
}

/* How many accesses and captures there are to print, so that the last ones can be known. */
static struct wc_error *cmd_report_count(const struct request *q, uint64_t *ret)
{
	scoped(fclosep) FILE *nowhere = fopen("/dev/null", "w");
	struct request quiet = *q;
	struct replay_ending ending;

	if (!nowhere)
		return wc_error_new(WC_EFAIL, "cannot open /dev/null");
	quiet.report.no_events = true;
	quiet.report.no_tables = true;
	return pass(&quiet, nowhere, &ending, ret);
}

static struct wc_error *print(struct request *q)
{
	struct replay_ending ending = { 0 };
	struct wc_error *err = NULL;
	uint64_t n;

	if (q->has_last && !q->report.no_events) {
		err = cmd_report_count(q, &n);
		if (!err)
			q->report.skip = n > q->last ? n - q->last : 0;
	}
	if (!err)
		err = pass(q, stdout, &ending, &n);
	if (!err)
		redact_ask_warn(ending.unused);
	if (err || ferror(stdout))
		return err;
	return end_of_log(log_operand_name(q->log), &ending.damage);
}

static struct wc_error *cmd_report_run(int argc, char **argv)
{
	struct request q = { 0 };
	struct wc_error *err = cmd_report_parse(argc, argv, &q);

	if (!err) {
		log_settle(q.log);
		err = q.html ? report_html(q.log, q.html, q.no_source, q.print.syntax, &q.redact) : print(&q);
	}
	free(q.tag);
	return err;
}

const struct command cmd_report = {
	.name = "report",
	.args = "[options] LOG",
	.summary = "print a recorded log: accesses, captures and calls, tables of them, stacks by count",
	.help = "--tag TAG alone prints the stacks captured under the tag by count, as a tree; with --json, "
		"--folded,\n"
		"--events, --sites or --before, in that form.\n"
		"Of a step recording (watchctl step), what happened and the functions; --calls, --function, "
		"--depth and\n"
		"--thread print the calls.\n"
		"Of a program that calltrace-cc has built and that has died, LOG may be its core: the last calls "
		"are in it.\n"
		"A log that was cut short is printed as far as it is whole; the exit status is then 8.\n"
		"babeltrace2 LOG prints the raw events.\n",
	.options = options,
	.operand = COMPLETE_DIRECTORY,
	.run = cmd_report_run,
};
