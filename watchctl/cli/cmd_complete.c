/*
 * What the shells' completion asks, so that it never differs from the table:
 *
 *	watchctl __complete		NAME <tab> SUMMARY, a line a command
 *	watchctl __complete COMMAND	NAME <tab> HOW <tab> WORDS <tab> HELP, a line an option; the
 *					first line, with the name "-", is about the operands
 *
 * HOW is none (the option takes no argument), or how the argument completes: any, file,
 * directory, pid, program, words, command.
 */
#include <stdio.h>

#include "watchctl/cli/command.h"

static const char *how(enum complete_as as)
{
	static const char *const name[] = {
		[COMPLETE_NOTHING] = "any",	    [COMPLETE_FILE] = "file",
		[COMPLETE_DIRECTORY] = "directory", [COMPLETE_PID] = "pid",
		[COMPLETE_PROGRAM] = "program",	    [COMPLETE_WORDS] = "words",
		[COMPLETE_COMMAND] = "command",	    [COMPLETE_VARIABLE] = "any",
		[COMPLETE_FUNCTION] = "any",
	};

	return name[as];
}

static void print_option(const char *name, const struct option *o)
{
	printf("%s\t%s\t%s\t%s\n", name, o->arg ? how(o->complete) : "none", o->words ? o->words : "",
	       o->help);
}

static struct wc_error *run(int argc, char **argv)
{
	const struct command *const *c, *one;
	const struct option *o;

	if (argc == 1) {
		for (c = commands; *c; c++)
			printf("%s\t%s\n", (*c)->name, (*c)->summary);
		return NULL;
	}
	one = command_find(argv[1]);
	if (!one)
		return command_unknown(argv[1]);
	printf("-\t%s\t\t\n", how(one->operand));
	for (o = one->options; o->name; o++) {
		print_option(o->name, o);
		if (o->alias)
			print_option(o->alias, o);
	}
	printf("--help\tnone\t\tprint this command's help\n");
	return NULL;
}

static const struct option options[] = { { 0 } };

const struct command cmd_complete = {
	.name = "__complete",
	.args = "[COMMAND]",
	.summary = "lists commands and options for the shells' completion",
	.options = options,
	.operand = COMPLETE_COMMAND,
	.run = run,
};
