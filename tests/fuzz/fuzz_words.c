/*
 * Any line is a command of the REPL, or a command line, or an error that says what is wrong: words, options
 * and their values. Nothing is run.
 */
#include <stdio.h>

#include "tests/fuzz/fuzz.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/repl/repl.h"
#include "watchctl/cli/request/step_options.h"
#include "watchctl/cli/request/watch_request.h"

static bool good(struct wc_error *err)
{
	bool ok = !err;

	if (err)
		require(err == &wc_enomem || (err->text && *err->text));
	wc_error_free(err);
	return ok;
}

/* As a word of the command line that has that form. */
static void ask_value(const struct option_match *m)
{
	unsigned int choice;
	uint64_t n;

	if (!m->option->arg)
		return;
	if (good(option_number(m, 3, 1000, &n)))
		require(n >= 3 && n <= 1000);
	good(option_bytes(m, &n));
	if (good(option_time(m, &n)))
		require(n > 0);
	if (m->option->words)
		good(option_choice(m, &choice));
}

static void ask_options(const struct option *options, int argc, char **argv)
{
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = options };
	struct option_match m;

	while (good(option_next(&scan, &m)) && m.kind != OPTION_END && m.kind != OPTION_DASHES) {
		require(scan.next <= argc && (m.kind != OPTION_FOUND || !m.option->arg == !m.value));
		if (m.kind == OPTION_FOUND)
			ask_value(&m);
	}
}

static void ask_watch(int argc, char **argv)
{
	static const struct option options[] = { { .more = watch_options },
						 { .more = watch_engine_options },
						 { 0 } };
	struct option_scan scan = { .argc = argc, .argv = argv, .next = 1, .options = options };
	struct option_match m = { 0 };
	struct watch_ask q;

	watch_ask_init(&q);
	while (good(option_next(&scan, &m)) && m.kind == OPTION_FOUND && good(option_set(&m, &q)))
		;
	require(q.monitor.nwatches <= MONITOR_WATCHES);
	good(watch_ask_check_watches(&q));
	good(watch_ask_check(&q));
}

static void ask_command(int argc, char **argv)
{
	const struct repl_command *r;
	const struct command *const *c;
	struct step_command step;

	if (good(repl_command_find(argv[0], &r))) {
		require(!strncmp(r->name, argv[0], strlen(argv[0])));
		if (r->options)
			ask_options(r->options, argc, argv);
	}
	for (c = commands; *c; c++)
		ask_options((*c)->options, argc, argv);
	ask_watch(argc, argv);
	good(step_options_parse(argc, argv, &step));
	if (!command_find(argv[0]))
		good(command_unknown(argv[0]));
}

static void ask_format(const char *text)
{
	struct examine x = { .count = 1, .format = 'x', .size = 'w' };

	if (good(examine_parse(text, &x)))
		require(x.count && x.count <= EXAMINE_MAX && strchr("xduotacfsi", x.format) &&
			strchr("bhwg", x.size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = { data, size };
	bool open = fuzz_take_byte(&in) & 1;
	char *line = fuzz_text(&in);
	struct repl_words w;

	ask_format(line);
	if (good(repl_split(line, open, &w))) {
		size_t len = 0;

		require(w.v && !w.v[w.n]);
		for (size_t i = 0; i < w.n; i++)
			len += strlen(w.v[i]);
		require(len <= strlen(line));
		if (w.n)
			ask_command((int)w.n, w.v);
		repl_words_deinit(&w);
	}
	free(line);
	return 0;
}
