#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/patch_print.h"
#include "watchctl/code/elf/module.h"
#include "watchctl/patch/patch_module.h"
#include "watchctl/patch/patch_plan.h"
#include "watchctl/patch/pattern.h"
#include "watchctl/target/proc/proc.h"

struct request {
	bool plan, json, sites;
	pid_t pid; /* 0: a file */
	const char *file, *in;
	struct patch_query query;
};

static struct wc_error *add_pattern(struct patch_query *q, const char *text)
{
	struct pattern p;
	struct wc_error *err = pattern_parse(text, &p);

	if (err)
		return err;
	if (vec_push(q->pattern, q->npatterns, q->pattern_cap, p))
		return NULL;
	pattern_deinit(&p);
	return &wc_enomem;
}

static struct wc_error *set_pattern(const struct option_match *m, void *to)
{
	return add_pattern(to, m->value);
}

/* A pattern a line; "#" begins a comment, which may stand behind one as well. */
static struct wc_error *read_rule(struct patch_query *q, char *line, const char *file, unsigned int number)
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

static const struct option options[] = {
	{ "--plan", NULL, NULL, "say what would be patched, how, and what not and why; change nothing", 0,
	  NULL, OPTION_FLAG(struct request, plan) },
	{ "--at", NULL, "PATTERN",
	  "where: instructions, \"entry NAME\", \"exit NAME\", FILE:LINE, an address; may be repeated",
	  COMPLETE_NOTHING, NULL, .set = set_pattern, .at = offsetof(struct request, query) },
	{ "--rules", NULL, "FILE", "patterns from FILE, one a line", COMPLETE_FILE, NULL, .set = set_rules,
	  .at = offsetof(struct request, query) },
	{ "-p", "--pid", "PID", "the modules of a running process, in place of a file", COMPLETE_PID, NULL,
	  OPTION_NUMBER(struct request, pid, 1, INT32_MAX) },
	{ "--in", NULL, "MODULE", "only in this module of the process, like libc.so.6", COMPLETE_FILE, NULL,
	  OPTION_TEXT(struct request, in) },
	{ "--function", NULL, "GLOB", "only in functions that are called so, like 'handle_*'",
	  COMPLETE_FUNCTION, NULL, OPTION_TEXT(struct request, query.function) },
	{ "--sites", NULL, NULL, "list every site, however many there are", 0, NULL,
	  OPTION_FLAG(struct request, sites) },
	{ "--json", NULL, NULL, "one JSON object a line: each site, and the totals", 0, NULL,
	  OPTION_FLAG(struct request, json) },
	{ 0 },
};

static struct wc_error *take_file(void *request, const char *word)
{
	struct request *q = request;

	if (q->file)
		return wc_error_new(WC_EUSAGE, "patch looks at one file at a time; \"%s\" is a second one",
				    word);
	q->file = word;
	return NULL;
}

static struct wc_error *check_request(const struct request *q)
{
	if (!q->plan)
		return wc_error_new(WC_EUSAGE,
				    "this version of watchctl plans patches, and applies none: add --plan");
	if (!q->query.npatterns)
		return wc_error_new(WC_EUSAGE,
				    "patch needs to know where: --at PATTERN, like --at 'entry malloc'");
	if (q->pid && q->file)
		return wc_error_new(WC_EUSAGE, "-p %d names a process, and \"%s\" a file: give one of them",
				    q->pid, q->file);
	if (!q->pid && !q->file)
		return wc_error_new(
			WC_EUSAGE,
			"patch needs a file or a process: watchctl patch --plan --at PATTERN FILE");
	if (q->in && q->file)
		return wc_error_new(WC_EUSAGE,
				    "--in chooses a module of a process; of a file there is only one");
	return NULL;
}

static struct wc_error *open_module(const struct module *m, const struct memory_view *mem,
				    struct patch_modules *ret)
{
	struct patch_module p;
	struct wc_error *err = patch_module_open(m, mem, &p);

	if (err)
		return err;
	if (vec_push(ret->v, ret->n, ret->cap, p))
		return NULL;
	patch_module_deinit(&p);
	return &wc_enomem;
}

static struct wc_error *open_file(const struct request *q, struct patch_modules *ret)
{
	scoped(module_deinit) struct module m = { 0 };
	struct wc_error *err = patch_module_of_file(q->file, &m);

	return err ? err : open_module(&m, NULL, ret);
}

static struct wc_error *no_such_module(const struct request *q, const struct module_list *list)
{
	struct wc_error *err =
		wc_error_new(WC_ENAME, "process %d has no module \"%s\"; it has", q->pid, q->in);

	for (size_t i = 0; i < list->n && i < 8; i++)
		err = wc_error_hint(err, "%s", list->v[i].path);
	return err;
}

static struct wc_error *open_process(const struct request *q, struct patch_modules *ret)
{
	scoped(module_list_deinit) struct module_list list = { 0 };
	const struct memory_view mem = proc_memory(&q->pid);
	const struct module *only = NULL;
	struct wc_error *err = module_list_read(q->pid, &list);

	if (!err && q->in && !(only = module_by_name(&list, q->in)))
		err = no_such_module(q, &list);
	for (size_t i = 0; i < list.n && !err; i++)
		if (!only || only == &list.v[i])
			err = open_module(&list.v[i], &mem, ret);
	if (!err && !ret->n)
		err = wc_error_new(WC_ETARGET, "process %d has no code: it is a kernel thread, or has ended",
				   q->pid);
	return err;
}

static struct wc_error *cmd_patch_work(struct request *q)
{
	scoped(patch_modules_deinit) struct patch_modules modules = { 0 };
	scoped(patch_printer_deinit) struct patch_printer printer = { stdout, q->json, q->sites, 0, { 0 } };
	struct patch_totals totals = { 0 };
	struct wc_error *err = q->pid ? open_process(q, &modules) : open_file(q, &modules);

	if (!err)
		err = patch_plan(&q->query, &modules, patch_print_site, &printer, &totals);
	if (!err)
		patch_print_totals(&printer, &totals);
	return err;
}

static struct wc_error *cmd_patch_run(int argc, char **argv)
{
	struct request q = { 0 };
	struct wc_error *err = option_parse(argc, argv, options, &q, take_file);

	if (!err)
		err = check_request(&q);
	if (!err)
		err = cmd_patch_work(&q);
	patch_query_deinit(&q.query);
	return err;
}

const struct command cmd_patch = {
	.name = "patch",
	.args = "--plan --at PATTERN [--at PATTERN] [--rules FILE] [options] FILE\n"
		"--plan --at PATTERN [--at PATTERN] [--rules FILE] [--in MODULE] [options] -p PID",
	.summary = "find instructions by patterns, and plan how a probe could be put there",
	.help = "Patterns: 'lock cmpxchg *, *', 'mov reg64, [rdi+*]; ret', 'call malloc', '@syscall', 'writes\n"
		"[rip+*]', 'bytes 0f 05', 'entry malloc', 'exit *', 'server.c:412', 'malloc+0x1c', 0x1234.\n"
		"Nothing is changed: watchctl-patch(1) says what each tactic means.\n",
	.options = options,
	.operand = COMPLETE_FILE,
	.run = cmd_patch_run,
};
