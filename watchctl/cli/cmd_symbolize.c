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

static const struct option options[] = {
	{ "--debug-dir", NULL, "DIR",
	  "look for debug information in DIR too: DIR/.build-id, and files below it by their build ids",
	  COMPLETE_DIRECTORY, NULL },
	{ "--sysroot", NULL, "DIR", "the modules' files are below DIR, as those of a container are",
	  COMPLETE_DIRECTORY, NULL },
	{ "--module-path", NULL, "OLD=NEW", "the modules' files below OLD are below NEW here",
	  COMPLETE_NOTHING, NULL },
	{ "--dry-run", NULL, NULL, "store nothing in the log", 0, NULL },
	{ "--json", NULL, NULL, "one JSON object a line: each address, each module, a summary", 0, NULL },
	{ "-q", "--quiet", NULL, "print nothing but errors", 0, NULL },
	{ 0 },
};

static struct wc_error *map_path(struct symbol_search *search, const char *text)
{
	const char *equals = strchr(text, '=');
	scoped(freep) char *old = strndup(text, equals ? (size_t)(equals - text) : 0);

	if (!old)
		return &wc_enomem;
	if (!equals)
		return wc_error_new(WC_EUSAGE, "--module-path needs OLD=NEW; \"%s\" has no \"=\"", text);
	return symbol_search_map_path(search, old, equals + 1);
}

static struct wc_error *take_option(struct request *q, const struct option_match *m)
{
	if (option_is(m, "--debug-dir"))
		return symbol_search_add_dir(q->search, m->value);
	if (option_is(m, "--sysroot"))
		return symbol_search_set_sysroot(q->search, m->value);
	if (option_is(m, "--module-path"))
		return map_path(q->search, m->value);
	if (option_is(m, "--dry-run"))
		q->dry_run = true;
	else if (option_is(m, "--json"))
		q->json = true;
	else if (option_is(m, "-q"))
		q->quiet = true;
	return NULL;
}

static struct wc_error *cmd_symbolize_parse(int argc, char **argv, struct request *q)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = options };
	struct option_match m;
	struct wc_error *err;

	do {
		err = option_next(&scan, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = take_option(q, &m);
		else if (!err && m.kind == OPTION_WORD)
			err = option_one_log(&q->log, m.value, "symbolize takes");
		while (!err && m.kind == OPTION_DASHES && scan.next < argc)
			err = option_one_log(&q->log, argv[scan.next++], "symbolize takes");
		if (err)
			return err;
	} while (m.kind != OPTION_END);

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
	const struct symbolize_options opt = { q->search, q->dry_run, q->quiet ? NULL : &progress,
					       q->quiet ? NULL : &bar };
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
