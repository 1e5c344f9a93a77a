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
#include "watchctl/cli/output/output.h"
#include "watchctl/cli/output/redact_options.h"
#include "watchctl/view/export/export.h"
#include "watchctl/view/export/export_out.h"

#define PART_MB 190 /* the viewers take 200 */
#define NODES 80

struct request {
	const char *log, *path;
	bool has_format, force, quiet, utc;
	struct time_ask time;
	const char **tag; /* as many as there are arguments */
	struct redact_ask redact;
	struct export_options export;
};

static const struct option options[] = {
	{ "--to", NULL, "FORMAT", "chrome, folded, speedscope, csv, jsonl, dot or perf-script",
	  COMPLETE_WORDS, EXPORT_FORMATS },
	{ "-o", NULL, "FILE", "write to FILE, or into it where it is a directory (standard output)",
	  COMPLETE_FILE, NULL },
	{ "--force", NULL, NULL, "replace FILE where it exists", 0, NULL },
	{ "--watch", NULL, "NAME", "only this watch, and the tags named", COMPLETE_NOTHING, NULL },
	{ "--tag", NULL, "TAG", "only this tag (a name or a number; repeatable), and the watch named",
	  COMPLETE_NOTHING, NULL },
	{ "--thread", NULL, "THREAD", "only what that thread did (its number or name)", COMPLETE_NOTHING,
	  NULL },
	TIME_OPTIONS,
	{ "--utc", NULL, NULL, "the times of day are in UTC", 0, NULL },
	{ "--function", NULL, "PATTERN", "only calls of such functions, with all inside of them (f, 'net_*')",
	  COMPLETE_NOTHING, NULL },
	{ "--depth", NULL, "N", "only N levels of calls", COMPLETE_NOTHING, NULL },
	{ "--no-stack", NULL, NULL, "leave out the stacks (chrome, csv, jsonl)", 0, NULL },
	{ "--regs", NULL, NULL, "the registers too (jsonl)", 0, NULL },
	{ "--split", NULL, "MB", "chrome: begin another file before one becomes larger (190; 0: never)",
	  COMPLETE_NOTHING, NULL },
	{ "--nodes", NULL, "N", "dot: at most so many functions and sites (80)", COMPLETE_NOTHING, NULL },
	REDACT_OPTIONS,
	{ "-q", "--quiet", NULL, "do not report what was written", 0, NULL },
	{ 0 },
};

static void take_flag(struct request *q, const struct option_match *m)
{
	if (option_is(m, "--force"))
		q->force = true;
	else if (option_is(m, "--utc"))
		q->utc = true;
	else if (option_is(m, "--no-stack"))
		q->export.no_stack = true;
	else if (option_is(m, "--regs"))
		q->export.regs = true;
	else if (option_is(m, "-q"))
		q->quiet = true;
}

static struct wc_error *take_format(struct request *q, const struct option_match *m)
{
	unsigned int format;
	struct wc_error *err = option_choice(m, &format);

	if (err)
		return err;
	q->export.to = (enum export_format)format;
	q->has_format = true;
	return NULL;
}

static struct wc_error *take_number(struct request *q, const struct option_match *m)
{
	uint64_t n;
	struct wc_error *err =
		option_is(m, "--split") ? option_number(m, 0, 1000000, &n) : option_number(m, 1, 100000, &n);

	if (err)
		return err;
	if (option_is(m, "--split"))
		q->export.part_bytes = n * 1000000;
	else if (option_is(m, "--nodes"))
		q->export.nodes = n;
	else
		q->export.choice.depth = (uint32_t)n;
	return NULL;
}

static struct wc_error *take_option(struct request *q, const struct option_match *m)
{
	struct export_choice *choice = &q->export.choice;
	bool taken;
	struct wc_error *err = redact_ask_take(&q->redact, m, &taken);

	if (!err && !taken)
		err = time_ask_take(&q->time, m, &taken);
	if (err || taken)
		return err;
	if (!m->option->arg)
		take_flag(q, m);
	else if (option_is(m, "--to"))
		return take_format(q, m);
	else if (option_is(m, "-o"))
		q->path = m->value;
	else if (option_is(m, "--watch"))
		choice->watch = m->value;
	else if (option_is(m, "--tag"))
		q->tag[choice->ntags++] = m->value;
	else if (option_is(m, "--thread"))
		choice->thread = m->value;
	else if (option_is(m, "--function"))
		choice->function = m->value;
	else
		return take_number(q, m);
	return NULL;
}

static struct wc_error *scan_arguments(int argc, char **argv, struct request *q)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = options };
	struct option_match m;
	struct wc_error *err;

	do {
		err = option_next(&scan, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = take_option(q, &m);
		else if (!err && m.kind == OPTION_WORD)
			err = option_one_log(&q->log, m.value, "export reads");
		while (!err && m.kind == OPTION_DASHES && scan.next < argc)
			err = option_one_log(&q->log, argv[scan.next++], "export reads");
		if (err)
			return err;
	} while (m.kind != OPTION_END);
	return NULL;
}

static struct wc_error *check_options(const struct request *q)
{
	const struct export_choice *c = &q->export.choice;

	if (!q->log)
		return wc_error_new(WC_EUSAGE,
				    "export needs the name of a log: watchctl export LOG --to FORMAT");
	if (!q->has_format)
		return wc_error_new(WC_EUSAGE, "export needs --to FORMAT, one of: " EXPORT_FORMATS);
	if (q->export.no_stack && !export_has_stack_option(q->export.to))
		return wc_error_new(WC_EUSAGE, "--no-stack: that format consists of stacks");
	if (q->export.regs && q->export.to != EXPORT_JSONL)
		return wc_error_new(WC_EUSAGE, "--regs: only jsonl has registers");
	if ((c->function || c->depth) && (c->watch || c->ntags))
		return wc_error_new(WC_EUSAGE,
				    "--function and --depth choose calls, which --watch and --tag leave out");
	return NULL;
}

static struct wc_error *cmd_export_parse(int argc, char **argv, struct request *q)
{
	struct export_choice *choice = &q->export.choice;
	struct wc_error *err;

	q->export.part_bytes = PART_MB * 1000000ull;
	q->export.nodes = NODES;
	q->tag = calloc((size_t)argc + 1, sizeof(*q->tag));
	if (!q->tag)
		return &wc_enomem;
	choice->tag = q->tag;
	err = scan_arguments(argc, argv, q);
	q->export.redact = redact_ask_rules(&q->redact);
	if (!err)
		err = check_options(q);
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
	return end_of_log(q->log, &e->damage);
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
		"reads `perf script`.\n"
		"FILE appears when it is complete, or not at all; it is not replaced without --force.\n",
	.options = options,
	.operand = COMPLETE_DIRECTORY,
	.run = cmd_export_run,
};
