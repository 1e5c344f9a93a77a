#include <stdio.h>

#include "watchctl/cli/command.h"

static struct wc_error *cmd_help_run(int argc, char **argv)
{
	const struct command *c;

	if (argc > 2)
		return wc_error_new(WC_EUSAGE, "help takes one command's name");
	if (argc == 1) {
		command_print_overview(stdout);
		return NULL;
	}
	c = command_find(argv[1]);
	if (!c)
		return command_unknown(argv[1]);
	command_print_help(c, stdout);
	return NULL;
}

static const struct option options[] = { { 0 } };

const struct command cmd_help = {
	.name = "help",
	.args = "[COMMAND]",
	.summary = "what the commands are and what one of them does",
	.options = options,
	.operand = COMPLETE_COMMAND,
	.run = cmd_help_run,
};
