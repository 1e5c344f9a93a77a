#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/progress.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/options/time_options.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/cli/output/log_operand.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/cli/output/redact_options.h"
#include "watchctl/view/export/export.h"
#include "watchctl/view/export/export_out.h"

#define PART_MB 190 /* the viewers take 200 */
#define NODES 80

struct request {
	const char *log, *path;
	bool has_format, has_split, force, quiet, utc;
	struct time_ask time;
	const char **tag; /* as many as there are arguments */
	struct redact_ask redact;
	struct export_options export;
};

static struct wc_error *set_format(const struct option_match *m, void *to)
{
	struct request *q = to;
	unsigned int format;
	struct wc_error *err = option_choice(m, &format);

	if (err)
		return err;
	q->export.to = (enum export_format)format;
	q->has_format = true;
	return NULL;
}

/* In MB. */
static struct wc_error *set_part(const struct option_match *m, void *to)
{
	struct request *q = to;
	uint64_t n;
	struct wc_error *err = option_number(m, 0, 1000000, &n);

	if (err)
		return err;
	q->export.part_bytes = n * 1000000;
	q->has_split = true;
	return NULL;
}

static struct wc_error *add_tag(const struct option_match *m, void *to)
{
	struct request *q = to;

	q->tag[q->export.choice.ntags++] = m->value;
	return NULL;
}

static const struct option options[] = {
	{ "--to", NULL, "FORMAT",
	  "chrome, folded, speedscope, csv, jsonl, dot, perf-script, callgrind or perfetto", COMPLETE_WORDS,
	  EXPORT_FORMATS, .set = set_format },
	{ "-o", NULL, "FILE", "write to FILE, or into it where it is a directory (standard output)",
	  COMPLETE_FILE, NULL, OPTION_TEXT(struct request, path) },
	{ "--force", NULL, NULL, "replace FILE where it exists", 0, NULL,
	  OPTION_FLAG(struct request, force) },
	{ "--watch", NULL, "NAME", "only this watch, and the tags named", COMPLETE_NOTHING, NULL,
	  OPTION_TEXT(struct request, export.choice.watch) },
	{ "--tag", NULL, "TAG", "only this tag (a name or a number; repeatable), and the watch named",
	  COMPLETE_NOTHING, NULL, .set = add_tag },
	{ "--thread", NULL, "THREAD", "only what that thread did (its number or name)", COMPLETE_NOTHING,
	  NULL, OPTION_TEXT(struct request, export.choice.thread) },
	OPTIONS_IN(struct request, time, time_options),
	{ "--utc", NULL, NULL, "the times of day are in UTC", 0, NULL, OPTION_FLAG(struct request, utc) },
	{ "--function", NULL, "PATTERN", "only calls of such functions, with all inside of them (f, 'net_*')",
	  COMPLETE_NOTHING, NULL, OPTION_TEXT(struct request, export.choice.function) },
	{ "--depth", NULL, "N", "only N levels of calls", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct request, export.choice.depth, 1, 100000) },
	{ "--no-stack", NULL, NULL, "leave out the stacks (chrome, csv, jsonl, perfetto)", 0, NULL,
	  OPTION_FLAG(struct request, export.no_stack) },
	{ "--regs", NULL, NULL, "the registers too (jsonl)", 0, NULL,
	  OPTION_FLAG(struct request, export.regs) },
	{ "--split", NULL, "MB", "chrome: begin another file before one becomes larger (190; 0: never)",
	  COMPLETE_NOTHING, NULL, .set = set_part },
	{ "--nodes", NULL, "N", "dot: at most so many functions and sites (80)", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct request, export.nodes, 1, 100000) },
	OPTIONS_IN(struct request, redact, redact_options),
	{ "-q", "--quiet", NULL, "do not report what was written", 0, NULL,
	  OPTION_FLAG(struct request, quiet) },
	{ 0 },
};

static struct wc_error *take_log(void *request, const char *word)
{
	struct request *q = request;

	return option_one_log(&q->log, word, "export reads");
}

static struct wc_error *check_options(const struct request *q)
{
	const struct event_choice *c = &q->export.choice;

	if (!q->log)
		return wc_error_new(WC_EUSAGE,
				    "export needs the name of a log: watchctl export LOG --to FORMAT");
	if (!q->has_format)
		return wc_error_new(WC_EUSAGE, "export needs --to FORMAT, one of: " EXPORT_FORMATS);
	if (q->export.no_stack && !export_has_stack_option(q->export.to))
		return wc_error_new(WC_EUSAGE, "--no-stack: that format consists of stacks");
	if (q->export.regs && q->export.to != EXPORT_JSONL)
		return wc_error_new(WC_EUSAGE, "--regs: only jsonl has registers");
	if (q->has_split && q->export.to == EXPORT_PERFETTO)
		return wc_error_new(WC_EUSAGE,
				    "--split: a trace for Perfetto is one file, however large; --from "
				    "and --until export a part of the log");
	if ((c->function || c->depth) && (c->watch || c->ntags))
		return wc_error_new(WC_EUSAGE,
				    "--function and --depth choose calls, which --watch and --tag leave out");
	return NULL;
}

static struct wc_error *cmd_export_parse(int argc, char **argv, struct request *q)
{
	struct event_choice *choice = &q->export.choice;
	struct wc_error *err;

	q->export.part_bytes = PART_MB * 1000000ull;
	q->export.nodes = NODES;
	q->tag = calloc((size_t)argc + 1, sizeof(*q->tag));
	if (!q->tag)
		return &wc_enomem;
	choice->tag = q->tag;
	err = option_parse(argc, argv, options, q, take_log);
	q->export.redact = redact_ask_rules(&q->redact);
	if (!err)
		err = check_options(q);
	if (!err)
		err = log_operand_open(&q->log);
	q->export.name = log_operand_name(q->log);
	return err ? err : time_ask_choose(&q->time, q->log, q->utc, choice);
}

/* "DIR/LOG.json" for a directory; else the path as it is. NULL: no memory. */
static char *file_name(const struct request *q)
{
	scoped(freep) char *log = strdup(q->log);
	struct stat st;
	char *slash, *name;
	size_t len;

	if (!log || stat(q->path, &st) || !S_ISDIR(st.st_mode))
		return log ? strdup(q->path) : NULL;
	for (len = strlen(log); len > 1 && log[len - 1] == '/'; len--)
		log[len - 1] = '\0';
	slash = strrchr(log, '/');
	len = strlen(q->path);
	if (asprintf(&name, "%s%s%s.%s", q->path, len && q->path[len - 1] == '/' ? "" : "/",
		     slash ? slash + 1 : log, export_suffix(q->export.to)) < 0)
		return NULL;
	return name;
}

static void report_count(const char **comma, uint64_t n, const char *what, const char *plural)
{
	if (!n)
		return;
	printf("%s%" PRIu64 " %s%s", *comma, n, what, n == 1 ? "" : plural);
	*comma = ", ";
}

/* "trace.json: 12 accesses, 3 captured stacks" */
static void cmd_export_report(const struct export_out *out, const struct export_result *r)
{
	size_t i, n = export_out_parts(out);
	const char *comma = ": ";

	for (i = 0; i < n; i++)
		printf("%s%s", i ? ", " : "", export_out_name(out, i));
	report_count(&comma, r->accesses, "access", "es");
	report_count(&comma, r->captures, "captured stack", "s");
	report_count(&comma, r->probes, "probe event", "s");
	report_count(&comma, r->calls, "call", "s");
	puts(*comma == ':' ? ": nothing was chosen" : "");
}

static struct wc_error *judge(const struct request *q, const struct export_result *r)
{
	const struct replay_ending *e = &r->ending;

	if (r->lost && q->export.to != EXPORT_JSONL)
		fprintf(stderr,
			"watchctl: %" PRIu64 " events were lost in the recording: they are missing here\n",
			r->lost);
	redact_ask_warn(e->unused);
	return end_of_log(log_operand_name(q->log), &e->damage);
}

static struct wc_error *cmd_export_work(const struct request *q)
{
	static volatile sig_atomic_t stop;
	scoped(freep) char *path = q->path && strcmp(q->path, "-") != 0 ? file_name(q) : NULL;
	scoped(export_out_freep) struct export_out *out = NULL;
	scoped(progress_end) struct progress progress;
	struct export_result result = { 0 };
	struct wc_error *err;

	progress_begin(&progress, "exporting the log");
	if (!path && q->path && strcmp(q->path, "-") != 0)
		return &wc_enomem;
	err = export_out_open(path, q->force, &out);
	if (err)
		return err;
	if (export_is_binary(q->export.to) && isatty(fileno(export_out_file(out))))
		return wc_error_new(WC_EUSAGE,
				    "perfetto is a binary format, which a terminal cannot show: write it to "
				    "a file with -o FILE, or to a pipe");
	/* What goes to standard output ends as any program's: there is nothing to clean up. */
	if (path)
		output_catch_signals(&stop);
	/* On a terminal the output itself shows that it goes on. */
	err = export_log(q->log, &q->export, out, path || !isatty(STDOUT_FILENO) ? &progress : NULL, &stop,
			 &result);
	progress_end(&progress);
	if (!err)
		err = export_out_commit(out);
	if (err || (!path && ferror(stdout)))
		return err;
	if (path && !q->quiet)
		cmd_export_report(out, &result);
	return judge(q, &result);
}

static struct wc_error *cmd_export_run(int argc, char **argv)
{
	struct request q = { 0 };
	struct wc_error *err = cmd_export_parse(argc, argv, &q);

	if (!err)
		err = cmd_export_work(&q);
	free(q.tag);
	return err;
}

const struct command cmd_export = {
	.name = "export",
	.args = "LOG --to FORMAT [-o FILE] [options]",
	.summary = "write a log for other tools: Perfetto, flame graphs, spreadsheets, Graphviz",
	.help = "chrome is for Perfetto and chrome://tracing, folded for flame graphs, speedscope for "
		"speedscope.app, csv for\n"
		"tables, jsonl has the objects of report --json, dot is for Graphviz, perf-script for what "
		"reads `perf script`,\n"
		"callgrind for KCachegrind and callgrind_annotate, perfetto is Perfetto's own trace (binary).\n"
		"FILE appears when it is complete, or not at all; it is not replaced without --force.\n",
	.options = options,
	.operand = COMPLETE_DIRECTORY,
	.run = cmd_export_run,
};
