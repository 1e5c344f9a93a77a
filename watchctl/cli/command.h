/*
 * command - the table of commands. Help, shell completion and the manual's index come from it:
 * to add a command, write cmd_NAME.c with one `const struct command` and enter it in commands.c.
 */
#ifndef WATCHCTL_CLI_COMMAND_H
#define WATCHCTL_CLI_COMMAND_H

#include "watchctl/base/error.h"
#include "watchctl/cli/options/options.h"

struct command {
	const char *name;
	const char *args;	      /* what follows "watchctl NAME " in the usage, one form a line */
	const char *summary;	      /* one line, lower case, no full stop */
	const char *help;	      /* paragraphs below the options, each line ended; NULL: none */
	const struct option *options; /* ended by an entry without a name */
	enum complete_as operand;     /* how words that are no options complete */
	/*
	 * argv[0] is the command's name; --help has been dealt with. The error, if any, is printed by
	 * the caller and its kind is the exit status. A run that only fails to write to standard output
	 * returns NULL: the caller looks at ferror(stdout).
	 */
	struct wc_error *(*run)(int argc, char **argv);
	/*
	 * In place of run, of a command whose exit status is its answer, as diff(1)'s is: *@status, or
	 * STATUS_TROUBLE after any error.
	 */
	struct wc_error *(*answer)(int argc, char **argv, int *status);
};

#define STATUS_TROUBLE 2

extern const struct command cmd_watch; /* what options without a command's name mean */
extern const struct command cmd_record;
extern const struct command cmd_snapshot;
extern const struct command cmd_repl; /* also what no word at all means */
extern const struct command cmd_step;
extern const struct command cmd_patch;
extern const struct command cmd_trace;
extern const struct command cmd_flow;
extern const struct command cmd_top;
extern const struct command cmd_report;
extern const struct command cmd_diff;
extern const struct command cmd_symbolize;
extern const struct command cmd_export;
extern const struct command cmd_list;
extern const struct command cmd_clear;
extern const struct command cmd_help;
extern const struct command cmd_complete; /* asked by the shells' completion; not listed in the help */

/* Ended by NULL. */
extern const struct command *const commands[];

const struct command *command_find(const char *name);

/* WC_EUSAGE, with the nearest names. */
struct wc_error *command_unknown(const char *name);

void command_print_help(const struct command *c, FILE *out);
void command_print_overview(FILE *out);

#endif
