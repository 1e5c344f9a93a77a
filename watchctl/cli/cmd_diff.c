#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/private_file.h"
#include "watchctl/base/progress.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/output/redact_options.h"
#include "watchctl/view/diff/diff.h"
#include "watchctl/view/diff/diff_print.h"

#define GROUPS 20

struct request {
	const char **log, **ignore; /* as many as there are arguments */
	size_t nlogs, nignore;
	bool json, quiet;
	const char *html;
	unsigned int colour;
	struct redact_ask redact;
	struct diff_options diff;
	struct diff_print_options print;
};

static struct wc_error *set_share(const struct option_match *m, void *to)
{
	char *end;
	double value = strtod(m->value, &end);

	if (*end || end == m->value || !(value >= 0 && value <= 1))
		return wc_error_new(WC_EUSAGE, "option --tolerance wants a share from 0 to 1, not \"%s\"",
				    m->value);
	*(double *)to = value;
	return NULL;
}

static struct wc_error *add_ignored(const struct option_match *m, void *to)
{
	struct request *q = to;

	q->ignore[q->nignore++] = m->value;
	return NULL;
}

static const struct option options[] = {
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct request, json) },
	{ "--html", NULL, "FILE",
	  "write a page to look around in, too; - is standard output, instead of the text", COMPLETE_FILE,
	  NULL, OPTION_TEXT(struct request, html) },
	{ "-n", NULL, "COUNT", "rows of the list of all differences (20)", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct request, print.groups, 0, SIZE_MAX) },
	{ "--ignore", NULL, "FUNC[:ARG]",
	  "leave out its calls, or a parameter, \"return\", \"calls\"; repeatable", COMPLETE_NOTHING, NULL,
	  .set = add_ignored },
	{ "--masks", NULL, "FILE", "leave out what the file names", COMPLETE_FILE, NULL,
	  OPTION_TEXT(struct request, diff.masks) },
	{ "--save-masks", NULL, "FILE", "write what was left out, learned from several good runs",
	  COMPLETE_FILE, NULL, OPTION_TEXT(struct request, diff.save_masks) },
	{ "--from", NULL, "FUNC", "compare only from where it is entered, until it ends", COMPLETE_NOTHING,
	  NULL, OPTION_TEXT(struct request, diff.from) },
	{ "--to", NULL, "FUNC", "... or until this one is entered", COMPLETE_NOTHING, NULL,
	  OPTION_TEXT(struct request, diff.to) },
	{ "--only-thread", NULL, "THREAD", "compare only it: its number, tid or name", COMPLETE_NOTHING, NULL,
	  OPTION_TEXT(struct request, diff.thread) },
	{ "--tolerance", NULL, "SHARE", "floating point numbers may differ by that share (0)",
	  COMPLETE_NOTHING, NULL, .set = set_share, .at = offsetof(struct request, diff.tolerance) },
	{ "--weak", NULL, NULL, "compare what may mean nothing, too: registers, output buffers, allocations",
	  0, NULL, OPTION_FLAG(struct request, diff.weak) },
	{ "--by-name", NULL, NULL, "the programs differ: go by the names of functions", 0, NULL,
	  OPTION_FLAG(struct request, diff.by_name) },
	{ "--anyway", NULL, NULL, "compare also what was recorded with other filters", 0, NULL,
	  OPTION_FLAG(struct request, diff.anyway) },
	OPTIONS_IN(struct request, redact, redact_options),
	{ "-q", "--quiet", NULL, "print nothing: the exit status is the result", 0, NULL,
	  OPTION_FLAG(struct request, quiet) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct request, colour) },
	{ 0 },
};

static struct wc_error *add_log(void *request, const char *word)
{
	struct request *q = request;

	q->log[q->nlogs++] = word;
	return NULL;
}

static struct wc_error *cmd_diff_parse(int argc, char **argv, struct request *q)
{
	struct wc_error *err;

	q->print.groups = GROUPS;
	q->log = calloc(argc + 1, sizeof(*q->log));
	q->ignore = calloc(argc + 1, sizeof(*q->ignore));
	if (!q->log || !q->ignore)
		return &wc_enomem;
	err = option_parse(argc, argv, options, q, add_log);
	if (err)
		return err;
	if (q->nlogs < 2)
		return wc_error_new(WC_EUSAGE,
				    "diff needs a log of a good run, or several, and then one of a bad run: "
				    "watchctl diff GOOD... BAD");
	if (q->quiet && (q->json || (q->html && !strcmp(q->html, "-"))))
		return wc_error_new(WC_EUSAGE, "--quiet prints nothing; it excludes --json and --html -");
	if (q->json && q->html && !strcmp(q->html, "-"))
		return wc_error_new(WC_EUSAGE,
				    "--json and --html - exclude each other: there is one standard output");
	q->diff.good = q->log;
	q->diff.ngood = q->nlogs - 1;
	q->diff.bad = q->log[q->nlogs - 1];
	q->diff.ignore = q->ignore;
	q->diff.nignore = q->nignore;
	q->diff.redact = redact_ask_rules(&q->redact);
	q->print.colour = !q->json && colour_is_wanted(q->colour, STDOUT_FILENO);
	q->print.width = terminal_width(STDOUT_FILENO);
	return NULL;
}

static struct wc_error *write_page(struct diff_result *r, const struct request *q)
{
	scoped(fclosep) FILE *f = NULL;
	struct wc_error *err;

	if (!strcmp(q->html, "-"))
		return diff_print_html(r, stdout, &q->print);
	f = private_file_fopen(q->html);
	if (!f)
		return wc_error_errno(WC_EFAIL, errno, "cannot write %s", q->html);
	err = diff_print_html(r, f, &q->print);
	if (!err && (fflush(f) || ferror(f)))
		err = wc_error_errno(WC_EFAIL, errno, "cannot write %s", q->html);
	return err;
}

static struct wc_error *print(struct diff_result *r, const struct request *q)
{
	struct wc_error *err = q->html ? write_page(r, q) : NULL;

	if (err || q->quiet || (q->html && !strcmp(q->html, "-")))
		return err;
	return q->json ? diff_print_json(r, stdout) : diff_print_text(r, stdout, &q->print);
}

static struct wc_error *cmd_diff_work(struct request *q, int *status)
{
	static const int exit_status[] = { [DIFF_SAME] = 0, [DIFF_DIFFERENT] = 1, [DIFF_CANNOT_TELL] = 3 };
	scoped(diff_result_freep) struct diff_result *r = NULL;
	scoped(progress_end) struct progress progress;
	struct wc_error *err;

	progress_begin(&progress, "reading the logs");
	q->diff.progress = q->quiet ? NULL : &progress;
	err = diff_run(&q->diff, &r);
	progress_end(&progress);
	q->diff.progress = NULL;
	if (!err)
		err = print(r, q);
	if (!err)
		*status = exit_status[diff_verdict(r)];
	return err;
}

static struct wc_error *cmd_diff_answer(int argc, char **argv, int *status)
{
	struct request q = { .colour = COLOUR_AUTO };
	struct wc_error *err = cmd_diff_parse(argc, argv, &q);

	if (!err)
		err = cmd_diff_work(&q, status);
	free(q.log);
	free(q.ignore);
	return err;
}

const struct command cmd_diff = {
	.name = "diff",
	.args = "[options] GOOD... BAD",
	.summary = "what a bad run did differently: the first call with other values, or another call",
	.help = "Compares the logs of step call by call, and those of watches and tags as sequences. What "
		"several good\n"
		"runs do differently is noise: it is learned and left out.\n"
		"The exit status is 0 if they are the same, 1 if they differ, 2 after an error, and 3 if no difference was\n"
		"found in logs that do not show all of their runs.\n",
	.options = options,
	.operand = COMPLETE_DIRECTORY,
	.answer = cmd_diff_answer,
};
