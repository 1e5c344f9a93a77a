#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/patch/patch_ask.h"
#include "watchctl/patch/plan/pattern.h"

#define ARROW "=>"

/* Patterns, and what is to run there */

static struct wc_error *bad_rule(const char *text)
{
	return wc_error_new(
		WC_EUSAGE,
		"\"%s\" is no function of probes: behind \"=>\" stands its name, and before that, if wanted, "
		"before, after or instead",
		text);
}

/* "after on_malloc" */
static struct wc_error *read_action(const char *text, struct rule_ask *ret)
{
	static const char *const word[] = { "before", "after", "instead" };
	scoped(freep) char *copy = strdup(text);
	char *save = NULL, *first, *second;

	if (!copy)
		return &wc_enomem;
	first = strtok_r(copy, " \t\r\n", &save);
	second = first ? strtok_r(NULL, " \t\r\n", &save) : NULL;
	if (!first || (second && strtok_r(NULL, " \t\r\n", &save)))
		return bad_rule(text);
	for (unsigned int i = 0; second && i < 3; i++)
		if (!strcmp(first, word[i])) {
			ret->has_when = true;
			ret->when = (enum probe_when)i;
		}
	if (second && !ret->has_when)
		return bad_rule(text);
	ret->function = strdup(second ? second : first);
	return ret->function ? NULL : &wc_enomem;
}

/* @text: a pattern, and perhaps "=> FUNCTION". */
static struct wc_error *add_pattern(struct patch_ask *q, const char *text)
{
	scoped(freep) char *copy = strdup(text);
	char *arrow = copy ? strstr(copy, ARROW) : NULL;
	struct rule_ask rule = { 0 };
	struct wc_error *err = NULL;
	struct pattern p;

	if (!copy)
		return &wc_enomem;
	if (arrow) {
		err = read_action(arrow + strlen(ARROW), &rule);
		while (arrow > copy && (arrow[-1] == ' ' || arrow[-1] == '\t'))
			arrow--;
		*arrow = '\0';
	}
	if (!err)
		err = pattern_parse(copy, &p);
	if (err) {
		free(rule.function);
		return err;
	}
	if (vec_push(q->rule, q->nrules, q->rule_cap, rule)) {
		if (vec_push(q->query.pattern, q->query.npatterns, q->query.pattern_cap, p))
			return NULL;
		q->nrules--;
	}
	free(rule.function);
	pattern_deinit(&p);
	return &wc_enomem;
}

static struct wc_error *set_pattern(const struct option_match *m, void *to)
{
	return add_pattern(to, m->value);
}

/* A pattern a line; "#" begins a comment, which may stand behind one as well. */
static struct wc_error *read_rule(struct patch_ask *q, char *line, const char *file, unsigned int number)
{
	struct wc_error *err;

	line[strcspn(line, "#\n")] = '\0';
	if (!line[strspn(line, " \t\r")])
		return NULL;
	err = add_pattern(q, line + strspn(line, " \t"));
	return err ? wc_error_context(err, "%s, line %u", file, number) : NULL;
}

static struct wc_error *set_rules(const struct option_match *m, void *to)
{
	scoped(fclosep) FILE *f = fopen(m->value, "re");
	scoped(freep) char *line = NULL;
	struct wc_error *err = NULL;
	unsigned int number = 0;
	size_t cap = 0;

	if (!f)
		return wc_error_errno(WC_EUSAGE, errno, "cannot open the file of rules %s", m->value);
	while (!err && getline(&line, &cap, f) >= 0)
		err = read_rule(to, line, m->value, ++number);
	if (!err && ferror(f))
		err = wc_error_errno(WC_EUSAGE, errno, "cannot read the file of rules %s", m->value);
	return err;
}

/* Of all patterns before it that have none; and of those behind it, unless another follows them. */
static struct wc_error *set_call(const struct option_match *m, void *to)
{
	struct patch_ask *q = to;

	for (size_t i = 0; i < q->nrules; i++)
		if (!q->rule[i].function && !(q->rule[i].function = strdup(m->value)))
			return &wc_enomem;
	q->call = m->value;
	return NULL;
}

static struct wc_error *set_seconds(const struct option_match *m, void *to)
{
	return option_time(m, to);
}

static struct wc_error *add_watch(const struct option_match *m, void *to)
{
	return watch_ask_add(to, m->value);
}

static const struct option options[] = {
	{ "--at", NULL, "PATTERN",
	  "where: instructions, \"entry NAME\", \"exit NAME\", FILE:LINE, an address; may be repeated",
	  COMPLETE_NOTHING, NULL, .set = set_pattern },
	{ "--call", NULL, "FUNCTION",
	  "the function of PROBES.c that runs there; may be left out if it has only one", COMPLETE_NOTHING,
	  NULL, .set = set_call },
	{ "--rules", NULL, "FILE",
	  "patterns from FILE, one a line: PATTERN => [before|after|instead] FUNCTION", COMPLETE_FILE, NULL,
	  .set = set_rules },
	{ "-p", "--pid", "PID", "the running process", COMPLETE_PID, NULL,
	  OPTION_NUMBER(struct patch_ask, pid, 1, INT32_MAX) },
	{ "--in", NULL, "MODULE", "only in this module of the process, like libc.so.6", COMPLETE_FILE, NULL,
	  OPTION_TEXT(struct patch_ask, in) },
	{ "--function", NULL, "GLOB", "only in functions that are called so, like 'handle_*'",
	  COMPLETE_FUNCTION, NULL, OPTION_TEXT(struct patch_ask, query.function) },
	{ "--pending", NULL, NULL,
	  "names that are nowhere yet, and patterns that fit nowhere, may come with a library", 0, NULL,
	  OPTION_FLAG(struct patch_ask, pending) },
	{ "--after", NULL, NULL, "run the function behind the instruction, not before it", 0, NULL,
	  OPTION_FLAG(struct patch_ask, after) },
	{ "--instead", NULL, NULL,
	  "run it in place of the instruction; registers are what the function makes of them", 0, NULL,
	  OPTION_FLAG(struct patch_ask, instead) },
	{ "--yes-change-the-program", NULL, NULL, "--instead is meant: the program will do something else", 0,
	  NULL, OPTION_FLAG(struct patch_ask, yes) },
	{ "-v", "--variable", "EXPR",
	  "watch this variable at the same time, into the same log; may be repeated", COMPLETE_VARIABLE, NULL,
	  .set = add_watch, .at = offsetof(struct patch_ask, watch) },
	OPTIONS_IN(struct patch_ask, watch, watch_filter_options),
	{ "--engine", NULL, "ENGINE", "of the watches: auto (default), handler or ring", COMPLETE_WORDS,
	  "auto handler ring", OPTION_CHOICE(struct patch_ask, watch.monitor.engine) },
	{ "-n", "--count", "COUNT", "end after COUNT records of probes", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct patch_ask, count, 1, UINT64_MAX) },
	OPTIONS_IN(struct patch_ask, watch.ready, ready_options),
	{ "-t", "--time", "SECONDS", "end after SECONDS (fractions allowed)", COMPLETE_NOTHING, NULL,
	  .set = set_seconds, .at = offsetof(struct patch_ask, time_ns) },
	{ "-o", "--log", "LOG", "record into the new log LOG; records are then not printed",
	  COMPLETE_DIRECTORY, NULL, OPTION_TEXT(struct patch_ask, output.log) },
	{ "--force", NULL, NULL, "with -o: replace LOG where it exists", 0, NULL,
	  OPTION_FLAG(struct patch_ask, output.force) },
	{ "--echo", NULL, NULL, "with -o: print them all the same", 0, NULL,
	  OPTION_FLAG(struct patch_ask, echo) },
	{ "-q", "--quiet", NULL, "print no records: only the table and the summary", 0, NULL,
	  OPTION_FLAG(struct patch_ask, quiet) },
	{ "--output", NULL, "FILE",
	  "print to FILE (default: standard output; with a launched program, standard error)", COMPLETE_FILE,
	  NULL, OPTION_TEXT(struct patch_ask, output.file) },
	{ "--program-output", NULL, "FILE", "the standard output of a launched program goes to FILE",
	  COMPLETE_FILE, NULL, OPTION_TEXT(struct patch_ask, output.program_output) },
	{ "--no-stack", NULL, NULL, "do not print the callers", 0, NULL,
	  OPTION_FLAG(struct patch_ask, output.print.no_stack) },
	{ "--frames", NULL, "N", "most frames of a stack, 1 to 128 (default 64)", COMPLETE_NOTHING, NULL,
	  OPTION_NUMBER(struct patch_ask, frames, 1, STACK_MAX) },
	{ "--stack", NULL, "BYTES", "so much of it probe_stack() copies, at most 32K (default 4K)",
	  COMPLETE_NOTHING, NULL, OPTION_BYTES(struct patch_ask, stack) },
	{ "--buffer", NULL, "SIZE",
	  "of the records that wait to be read, for each CPU: 64K to 64M (default 4M)", COMPLETE_NOTHING,
	  NULL, OPTION_BYTES(struct patch_ask, buffer) },
	{ "--cc", NULL, "COMPILER", "the C compiler for PROBES.c (default: $CC, or cc)", COMPLETE_NOTHING,
	  NULL, OPTION_TEXT(struct patch_ask, cc) },
	{ "--library", NULL, "LIBRARY",
	  "make a drop-in for this library (a path, or a SONAME like libz.so.1) that has it patched in every "
	  "program that loads it",
	  COMPLETE_FILE, NULL, OPTION_TEXT(struct patch_ask, library) },
	{ "--output-dir", NULL, "DIR", "with --library: where the drop-in goes, with the original beside it",
	  COMPLETE_DIRECTORY, NULL, OPTION_TEXT(struct patch_ask, output_dir) },
	{ "--plan", NULL, NULL, "say what would be patched, how, and what not and why; change nothing", 0,
	  NULL, OPTION_FLAG(struct patch_ask, plan) },
	{ "--sites", NULL, NULL, "with --plan: list every site, however many there are", 0, NULL,
	  OPTION_FLAG(struct patch_ask, sites) },
	{ "--json", NULL, NULL, "one JSON object a line", 0, NULL, OPTION_FLAG(struct patch_ask, json) },
	{ "--utc", NULL, NULL, "times of day in UTC", 0, NULL,
	  OPTION_FLAG(struct patch_ask, output.print.utc) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct patch_ask, output.colour) },
	{ 0 },
};

static struct wc_error *take_word(void *request, const char *word)
{
	struct patch_ask *q = request;

	if (!q->nwords && !q->list && !q->drop_in && (!strcmp(word, "list") || !strcmp(word, "drop-in"))) {
		q->list = !strcmp(word, "list");
		q->drop_in = !q->list;
		return NULL;
	}
	return vec_push(q->word, q->nwords, q->word_cap, word) ? NULL : &wc_enomem;
}

static struct wc_error *check_plan(const struct patch_ask *q)
{
	if (q->nwords > 1)
		return wc_error_new(WC_EUSAGE,
				    "patch --plan looks at one file at a time; \"%s\" is a second one",
				    q->word[1]);
	if (q->pending)
		return wc_error_new(WC_EUSAGE, "--pending waits for libraries, and --plan for nothing");
	if (q->argv)
		return wc_error_new(WC_EUSAGE, "patch --plan starts no program: give its file, or -p PID");
	if (q->pid && q->nwords)
		return wc_error_new(WC_EUSAGE, "-p %d names a process, and \"%s\" a file: give one of them",
				    q->pid, q->word[0]);
	if (!q->pid && !q->nwords)
		return wc_error_new(
			WC_EUSAGE,
			"patch needs a file or a process: watchctl patch --plan --at PATTERN FILE");
	if (q->in && q->nwords)
		return wc_error_new(WC_EUSAGE,
				    "--in chooses a module of a process; of a file there is only one");
	return NULL;
}

static struct wc_error *check_list(const struct patch_ask *q)
{
	if (q->nwords || q->argv || q->query.npatterns)
		return wc_error_new(WC_EUSAGE, "patch list takes a process only: watchctl patch list -p PID");
	return q->pid ? NULL : wc_error_new(WC_EUSAGE, "list the patches of which process? Give -p PID");
}

static struct wc_error *check_watches(const struct patch_ask *q)
{
	for (unsigned int i = 0; i < q->watch.monitor.nwatches; i++)
		if (q->watch.monitor.watch[i].access == ACCESS_EXECUTE)
			return wc_error_new(
				WC_EUSAGE,
				"-x does not go with probes, which move instructions to where a debug register "
				"does not look: a probe runs at every execution, --at '%s' finds it",
				q->watch.monitor.watch[i].expr);
	if (!q->watch.monitor.nwatches && q->watch.monitor.engine != MONITOR_AUTO)
		return wc_error_new(
			WC_EUSAGE,
			"--engine is about how variables are watched, and none is: name one with -v");
	return watch_ask_check_watches(&q->watch);
}

/* Of the probes, and what they record. */
static struct wc_error *check_probes(const struct patch_ask *q)
{
	bool instead = q->instead;

	if (!q->nwords)
		return wc_error_new(
			WC_EUSAGE,
			"patch needs the file with the functions that are to run: watchctl patch -p PID "
			"--at PATTERN PROBES.c (see watchctl-patch(1)); or --plan, which changes nothing");
	for (size_t i = 0; i < q->nrules; i++)
		instead |= q->rule[i].has_when && q->rule[i].when == PROBE_IN_PLACE;
	if (instead && !q->yes)
		return wc_error_new(
			WC_EUSAGE,
			"instead of an instruction means that the program does something else from then on: add "
			"--yes-change-the-program if that is what you want");
	if (q->after && q->instead)
		return wc_error_new(WC_EUSAGE, "--after and --instead exclude each other");
	if (q->stack > 32768)
		return wc_error_new(WC_EUSAGE, "--stack takes at most 32K");
	if (q->buffer && (q->buffer < 65536 || q->buffer > 64u << 20))
		return wc_error_new(WC_EUSAGE, "--buffer takes a size from 64K to 64M");
	return check_watches(q);
}

static struct wc_error *check_live(const struct patch_ask *q)
{
	struct wc_error *err;

	if (!q->pid && !q->argv)
		return wc_error_new(WC_EUSAGE,
				    "patch needs a process: -p PID, or -- PROGRAM [ARGS]; or --plan FILE");
	if (q->pid && q->argv)
		return wc_error_new(WC_EUSAGE,
				    "-p %d names a process, and a program is to be started: give one of them",
				    q->pid);
	err = check_probes(q);
	if (err)
		return err;
	if (q->output.force && !q->output.log)
		return wc_error_new(WC_EUSAGE, "--force goes with -o LOG, which it replaces");
	if (q->output.program_output && !q->argv)
		return wc_error_new(WC_EUSAGE, "--program-output needs a program to launch: -- PROGRAM");
	return ready_check(&q->watch.ready);
}

/* The first of the options that are about a process, or NULL. */
static const char *about_a_process(const struct patch_ask *q)
{
	const struct {
		bool given;
		const char *option;
	} about[] = {
		{ q->pid, "-p" },
		{ q->argv, "-- PROGRAM" },
		{ q->in, "--in" },
		{ q->pending, "--pending" },
		{ q->count, "--count" },
		{ q->time_ns, "--time" },
		{ q->output.log, "--log" },
		{ q->output.force, "--force" },
		{ q->output.file, "--output" },
		{ q->output.program_output, "--program-output" },
		{ q->echo, "--echo" },
		{ q->quiet, "--quiet" },
	};

	for (size_t i = 0; i < sizeof(about) / sizeof(about[0]); i++)
		if (about[i].given)
			return about[i].option;
	return NULL;
}

static struct wc_error *check_library(const struct patch_ask *q)
{
	const char *other = about_a_process(q);

	if (other)
		return wc_error_new(
			WC_EUSAGE,
			"%s is about a process, and --library about a file: what programs that load the drop-in "
			"record goes to the log that WATCHCTL_OUTPUT names in their environment",
			other);
	if (q->plan)
		return q->output_dir || q->nwords
			       ? wc_error_new(
					 WC_EUSAGE,
					 "--plan makes no drop-in library: leave out --output-dir and the probes")
			       : NULL;
	if (!q->output_dir)
		return wc_error_new(WC_EUSAGE, "where is the drop-in library to go? Give --output-dir DIR");
	return check_probes(q);
}

static struct wc_error *check_request(const struct patch_ask *q)
{
	if (q->drop_in)
		return NULL;
	if (q->watch.monitor.nwatches && (q->list || q->plan || q->library))
		return wc_error_new(WC_EUSAGE,
				    "-v watches a variable of a running program while probes run in it: it "
				    "does not go with %s",
				    q->list   ? "list"
				    : q->plan ? "--plan"
					      : "--library");
	if (q->list)
		return check_list(q);
	if (!q->query.npatterns)
		return wc_error_new(WC_EUSAGE,
				    "patch needs to know where: --at PATTERN, like --at 'entry malloc'");
	if (q->library)
		return check_library(q);
	if (q->output_dir)
		return wc_error_new(WC_EUSAGE,
				    "--output-dir goes with --library, whose drop-in is written there");
	return q->plan ? check_plan(q) : check_live(q);
}

static void deinit_request(struct patch_ask *q)
{
	for (size_t i = 0; i < q->nrules; i++)
		free(q->rule[i].function);
	free(q->rule);
	free(q->word);
	patch_query_deinit(&q->query);
}

static struct wc_error *run_request(struct patch_ask *q)
{
	if (q->drop_in)
		return patch_run_drop_in(q);
	if (q->list)
		return patch_run_list(q);
	if (q->library)
		return patch_run_library(q);
	return q->plan ? patch_run_plan(q) : patch_run_live(q);
}

static struct wc_error *cmd_patch_run(int argc, char **argv)
{
	struct patch_ask q = { 0 };
	struct wc_error *err;

	watch_ask_init(&q.watch);
	err = option_parse_launch(argc, argv, options, &q, take_word, &q.argv);

	if (!err)
		err = check_request(&q);
	if (!err)
		err = run_request(&q);
	deinit_request(&q);
	return err;
}

const struct command cmd_patch = {
	.name = "patch",
	.args = "-p PID --at PATTERN [--call FUNCTION] PROBES.c [-v EXPR ...] [-o LOG] [options]\n"
		"--at PATTERN [--call FUNCTION] PROBES.c [-o LOG] [options] -- PROGRAM [ARGS]\n"
		"--library LIBRARY --at PATTERN [--call FUNCTION] PROBES.c --output-dir DIR\n"
		"--plan --at PATTERN [--at PATTERN] [--rules FILE] [options] FILE | -p PID\n"
		"list -p PID",
	.summary = "run a C function at every instruction that a pattern finds, in a running program",
	.help = "Patterns: 'lock cmpxchg *, *', 'mov reg64, [rdi+*]; ret', 'call malloc', '@syscall', 'writes\n"
		"[rip+*]', 'bytes 0f 05', 'entry malloc', 'exit *', 'server.c:412', 'malloc+0x1c', 0x1234.\n"
		"watchctl-patch(1) says how a probe gets there, and what is refused.\n",
	.options = options,
	.operand = COMPLETE_FILE,
	.run = cmd_patch_run,
};
