#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/progress.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/cli/symbolize_print.h"
#include "watchctl/code/elf/symbol_search.h"
#include "watchctl/view/rewrite/symbolize.h"

struct request {
	const char *log;
	bool json, quiet, dry_run;
	struct symbol_search *search;
};

static struct wc_error *add_dir(const struct option_match *m, void *to)
{
	struct symbol_search *const *search = to;

	return symbol_search_add_dir(*search, m->value);
}

static struct wc_error *set_sysroot(const struct option_match *m, void *to)
{
	struct symbol_search *const *search = to;

	return symbol_search_set_sysroot(*search, m->value);
}

static struct wc_error *map_path(const struct option_match *m, void *to)
{
	struct symbol_search *const *search = to;
	const char *equals = strchr(m->value, '=');
	scoped(freep) char *old = strndup(m->value, equals ? (size_t)(equals - m->value) : 0);

	if (!old)
		return &wc_enomem;
	if (!equals)
		return wc_error_new(WC_EUSAGE, "--module-path needs OLD=NEW; \"%s\" has no \"=\"", m->value);
	return symbol_search_map_path(*search, old, equals + 1);
}

static const struct option options[] = {
	{ "--debug-dir", NULL, "DIR",
	  "look for debug information in DIR too: DIR/.build-id, and files below it by their build ids",
	  COMPLETE_DIRECTORY, NULL, .set = add_dir, .at = offsetof(struct request, search) },
	{ "--sysroot", NULL, "DIR", "the modules' files are below DIR, as those of a container are",
	  COMPLETE_DIRECTORY, NULL, .set = set_sysroot, .at = offsetof(struct request, search) },
	{ "--module-path", NULL, "OLD=NEW", "the modules' files below OLD are below NEW here",
	  COMPLETE_NOTHING, NULL, .set = map_path, .at = offsetof(struct request, search) },
	{ "--dry-run", NULL, NULL, "store nothing in the log", 0, NULL,
	  OPTION_FLAG(struct request, dry_run) },
	{ "--json", NULL, NULL, "one JSON object a line: each address, each module, a summary", 0, NULL,
	  OPTION_FLAG(struct request, json) },
	{ "-q", "--quiet", NULL, "print nothing but errors", 0, NULL, OPTION_FLAG(struct request, quiet) },
	{ 0 },
};

static struct wc_error *take_log(void *request, const char *word)
{
	struct request *q = request;

	return option_one_log(&q->log, word, "symbolize takes");
}

static struct wc_error *cmd_symbolize_parse(int argc, char **argv, struct request *q)
{
	struct wc_error *err = option_parse(argc, argv, options, q, take_log);

	if (err)
		return err;
	if (!q->log)
		return wc_error_new(WC_EUSAGE, "symbolize needs the name of a log: watchctl symbolize LOG");
	return NULL;
}

/* For symbolize_log(): @ctx is the struct progress. */
static void cmd_symbolize_report(void *ctx, size_t done, size_t total)
{
	progress_at(ctx, total ? (double)done / (double)total : 0);
}

static struct wc_error *cmd_symbolize_work(const struct request *q)
{
	scoped(progress_end) struct progress bar;
	const struct symbol_progress progress = { cmd_symbolize_report, &bar };
	const struct symbolize_options opt = { .search = q->search,
					       .dry_run = q->dry_run,
					       .progress = q->quiet ? NULL : &progress,
					       .reading = q->quiet ? NULL : &bar };
	scoped(symbolize_freep) struct symbolize *s = NULL;
	struct wc_error *err;

	progress_begin(&bar, "reading the log");
	err = symbolize_log(q->log, &opt, &s);
	progress_end(&bar);
	if (err)
		return err;
	if (q->json)
		err = symbolize_print_json(s, stdout);
	else if (!q->quiet)
		symbolize_print_text(s, q->log, stdout);
	if (err || ferror(stdout))
		return err;
	return end_of_log(q->log, symbolize_damage(s));
}

static struct wc_error *cmd_symbolize_run(int argc, char **argv)
{
	struct request q = { .search = symbol_search_new() };
	struct wc_error *err;

	if (!q.search)
		return &wc_enomem;
	symbol_search_allow_fetch(q.search);
	err = cmd_symbolize_parse(argc, argv, &q);
	if (!err)
		err = cmd_symbolize_work(&q);
	symbol_search_free(q.search);
	return err;
}

const struct command cmd_symbolize = {
	.name = "symbolize",
	.args = "[options] LOG",
	.summary = "name the code addresses of a log from build ids, and keep the names in it",
	.help = "Files and debug information are looked for by build id: at the path that the log names, in\n"
		"/usr/lib/debug, and at the servers in DEBUGINFOD_URLS. Run again, it adds what it finds "
		"more.\n",
	.options = options,
	.operand = COMPLETE_DIRECTORY,
	.run = cmd_symbolize_run,
};
