/* main - find the command, run it, turn its error into a message and an exit status. */
#include <stdio.h>
#include <string.h>

#include "watchctl/base/fault_guard.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/output/ending.h"
#include "watchctl/monitor/live/live_session.h"

static bool wants_help(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "--help"))
			return true;
	return false;
}

/* *@answers: the command's exit status is *@status, unless there is an error. */
static struct wc_error *dispatch(int argc, char **argv, bool *answers, int *status)
{
	const struct command *c;

	if (argc < 2)
		return cmd_repl.run(argc, argv);
	if (!strcmp(argv[1], "--version")) {
		puts("watchctl " WATCHCTL_VERSION);
		return NULL;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		command_print_overview(stdout);
		return NULL;
	}
	if (argv[1][0] == '-') {
		c = &cmd_watch;
	} else {
		c = command_find(argv[1]);
		if (!c)
			return command_unknown(argv[1]);
		argc--;
		argv++;
	}
	if (wants_help(argc, argv)) {
		command_print_help(c, stdout);
		return NULL;
	}
	*answers = c->answer != NULL;
	return c->answer ? c->answer(argc, argv, status) : c->run(argc, argv);
}

int main(int argc, char **argv)
{
	bool answers = false;
	int answer = 0, status;

	fault_guard_install();
	if (live_session_asked(argc, argv))
		return live_session_main();
	survive_write_signals();
	status = end_with(dispatch(argc, argv, &answers, &answer));
	return !answers ? status : status ? STATUS_TROUBLE : answer;
}
