/* cmd_repl - `watchctl` alone, and `watchctl repl [FILE]`. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/repl/repl.h"

static volatile sig_atomic_t interrupted, ended;

struct request {
	const char *file; /* NULL: standard input */
	bool keep_going;
	unsigned int colour, syntax;
};

static const struct option options[] = {
	{ "-k", "--keep-going", NULL, "continue after an error; the exit status is that of the first error",
	  0, NULL, OPTION_FLAG(struct request, keep_going) },
	{ "--syntax", NULL, "SYNTAX", "of instructions: intel or att (AT&T)", COMPLETE_WORDS,
	  INSN_SYNTAX_WORDS, OPTION_CHOICE(struct request, syntax) },
	{ "--color", NULL, "WHEN", "colours: auto, always or never", COMPLETE_WORDS, COLOUR_WORDS,
	  OPTION_CHOICE(struct request, colour) },
	{ 0 },
};

static struct wc_error *cmd_repl_parse(int argc, char **argv, struct request *ret)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = options };
	struct request q = { 0 };
	struct option_match m;
	struct wc_error *err;

	do {
		err = option_next(&scan, &m);
		if (!err && m.kind == OPTION_FOUND)
			err = option_set(&m, &q);
		else if (!err && m.kind == OPTION_WORD && q.file)
			err = wc_error_new(WC_EUSAGE, "repl takes one file of commands");
		else if (!err && m.kind == OPTION_WORD)
			q.file = m.value;
		if (err)
			return err;
	} while (m.kind != OPTION_END && m.kind != OPTION_DASHES);
	*ret = q;
	return NULL;
}

static void on_interrupt(int sig)
{
	interrupted = sig;
}

static void on_end(int sig)
{
	ended = sig;
	interrupted = sig; /* what waits, ends */
}

/*
 * Ctrl-C never ends the session, where a person leads it; a script ends by it. Without SA_RESTART: who reads
 * or waits shall hear of it.
 */
static void catch_signals(bool interactive)
{
	static const int ends[] = { SIGTERM, SIGHUP };
	struct sigaction interrupt = { .sa_handler = interactive ? on_interrupt : on_end },
			 end = { .sa_handler = on_end }, old;
	size_t i;

	sigaction(SIGINT, &interrupt, NULL);
	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		if (!sigaction(ends[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(ends[i], &end, NULL);
}

static struct wc_error *run_file(struct repl *r, const char *name)
{
	scoped(fclosep) FILE *f = name ? fopen(name, "re") : NULL;

	if (name && !f)
		return wc_error_errno(WC_EUSAGE, errno, "cannot read %s", name);
	return repl_script(r, f ? f : stdin, name ? name : "standard input");
}

static struct wc_error *cmd_repl_run(int argc, char **argv)
{
	struct wc_error *err;
	struct request q;
	struct repl r;

	err = cmd_repl_parse(argc, argv, &q);
	if (err)
		return err;
	repl_init(&r);
	r.interrupted = &interrupted;
	r.ended = &ended;
	r.keep_going = q.keep_going;
	r.interactive = !q.file && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	r.syntax = r.examine.syntax = q.syntax;
	r.colour = colour_is_wanted(q.colour, STDOUT_FILENO);
	catch_signals(r.interactive);
	err = r.interactive ? repl_terminal(&r) : run_file(&r, q.file);
	return wc_error_first(err, repl_deinit(&r));
}

const struct command cmd_repl = {
	.name = "repl",
	.args = "[-k] [FILE]",
	.summary =
		"an interactive session: attach, watch, show, print ...; watchctl without arguments does the same",
	.help = "Without FILE, on a terminal, lines can be edited and completed, and are kept in a history. Otherwise "
		"commands\nare read from FILE or standard input, one per line, up to the first error, whose exit "
		"status becomes that of\nwatchctl. Type help for the commands.\n",
	.options = options,
	.operand = COMPLETE_FILE,
	.run = cmd_repl_run,
};
