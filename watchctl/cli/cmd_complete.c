/*
 * What the shells' completion asks, so that it never differs from the table:
 *
 *	watchctl __complete		NAME <tab> SUMMARY, a line a command
 *	watchctl __complete COMMAND	NAME <tab> HOW <tab> WORDS <tab> HELP, a line an option; the
 *					first line, with the name "-", is about the operands
 *	watchctl __complete --variables|--functions PREFIX [-p PID | PROGRAM]
 *				a line a name that begins with PREFIX, of that process or program
 *
 * HOW is none (the option takes no argument), or how the argument completes: any, file,
 * directory, pid, program, words, command, variable, function.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/cli/command.h"
#include "watchctl/code/locate/names.h"
#include "watchctl/monitor/inspect/inspect.h" /* with names_list() */

/* More than anybody wants to choose from. */
#define MOST_NAMES 2000

static const char *how(enum complete_as as)
{
	static const char *const name[] = {
		[COMPLETE_NOTHING] = "any",	    [COMPLETE_FILE] = "file",
		[COMPLETE_DIRECTORY] = "directory", [COMPLETE_PID] = "pid",
		[COMPLETE_PROGRAM] = "program",	    [COMPLETE_WORDS] = "words",
		[COMPLETE_COMMAND] = "command",	    [COMPLETE_VARIABLE] = "variable",
		[COMPLETE_FUNCTION] = "function",
	};

	return name[as];
}

static void print_option(const char *name, const struct option *o)
{
	printf("%s\t%s\t%s\t%s\n", name, o->arg ? how(o->complete) : "none", o->words ? o->words : "",
	       o->help);
}

static bool print_name(void *ctx, const char *name)
{
	return puts(name) >= 0;
}

/* Without a sentence about what cannot be looked at: it would stand in the middle of what is being typed. */
static void print_names(enum names_of what, int argc, char **argv)
{
	bool by_pid = argc == 3 && !strcmp(argv[1], "-p");
	pid_t pid = by_pid ? atoi(argv[2]) : 0;
	const char *program = argc == 2 ? argv[1] : NULL;

	if (pid > 0 || program)
		wc_error_free(names_list(pid, program, argv[0], what, MOST_NAMES, print_name, NULL));
}

static struct wc_error *cmd_complete_run(int argc, char **argv)
{
	const struct command *const *c, *one;
	const struct option *o;
	struct option_walk w;

	if (argc > 2 && (!strcmp(argv[1], "--variables") || !strcmp(argv[1], "--functions"))) {
		print_names(argv[1][2] == 'v' ? NAMES_VARIABLES : NAMES_FUNCTIONS, argc - 2, argv + 2);
		return NULL;
	}

	if (argc == 1) {
		for (c = commands; *c; c++)
			printf("%s\t%s\n", (*c)->name, (*c)->summary);
		return NULL;
	}
	one = command_find(argv[1]);
	if (!one)
		return command_unknown(argv[1]);
	printf("-\t%s\t\t\n", how(one->operand));
	w = (struct option_walk){ .row = { one->options } };
	while ((o = option_walk_next(&w))) {
		print_option(o->name, o);
		if (o->alias)
			print_option(o->alias, o);
	}
	printf("--help\tnone\t\tprint this command's help\n");
	if (one == &cmd_watch)
		printf("--version\tnone\t\tprint the version\n");
	return NULL;
}

static const struct option options[] = { { 0 } };

const struct command cmd_complete = {
	.name = "__complete",
	.args = "[COMMAND]\n"
		"--variables|--functions PREFIX [-p PID | PROGRAM]",
	.summary = "lists commands and options for the shells' completion",
	.options = options,
	.operand = COMPLETE_COMMAND,
	.run = cmd_complete_run,
};
