#include "watchctl/cli/command.h"

#include <stdio.h>
#include <string.h>

#include "watchctl/base/words/similar.h"

/* In the order of the overview. */
const struct command *const commands[] = {
	&cmd_watch,  &cmd_record, &cmd_snapshot, &cmd_top,    &cmd_repl, &cmd_step,
	&cmd_patch,  &cmd_trace,  &cmd_flow,	 &cmd_report, &cmd_diff, &cmd_symbolize,
	&cmd_export, &cmd_list,	  &cmd_clear,	 &cmd_help,   NULL,
};

const struct command *command_find(const char *name)
{
	const struct command *const *c;

	for (c = commands; *c; c++)
		if (!strcmp((*c)->name, name))
			return *c;
	return strcmp(name, cmd_complete.name) == 0 ? &cmd_complete : NULL;
}

struct wc_error *command_unknown(const char *name)
{
	const struct command *const *c;
	struct similar similar;
	char list[160];

	similar_init(&similar, name, strlen(name));
	for (c = commands; *c; c++)
		similar_offer(&similar, (*c)->name);
	if (similar_list(&similar, list, sizeof(list)))
		return wc_error_new(WC_EUSAGE, "there is no command \"%s\"; did you mean %s?", name, list);
	return wc_error_new(WC_EUSAGE,
			    "there is no command \"%s\" (watchctl --help lists them; to launch a program and "
			    "watch it: watchctl -v EXPR -- PROGRAM)",
			    name);
}

static void print_usage(const struct command *c, FILE *out)
{
	const char *line = c->args, *lead = "usage:";

	do {
		int len = strcspn(line, "\n");

		fprintf(out, "%-6s watchctl%s%s%s%.*s\n", lead, c == &cmd_watch ? "" : " ",
			c == &cmd_watch ? "" : c->name, len ? " " : "", len, line);
		line += len + (line[len] == '\n');
		lead = "";
	} while (*line);
}

static void option_text(const struct option *o, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s%s%s%s%s", o->name, o->alias ? ", " : "", o->alias ? o->alias : "",
		 o->arg ? " " : "", o->arg ? o->arg : "");
}

static void print_options(const struct option *table, FILE *out)
{
	struct option_walk w = { .row = { table } };
	const struct option *o;
	char text[80];

	while ((o = option_walk_next(&w))) {
		option_text(o, text, sizeof(text));
		if (strlen(text) > 22)
			fprintf(out, "  %s\n  %-22s  %s\n", text, "", o->help);
		else
			fprintf(out, "  %-22s  %s\n", text, o->help);
	}
}

void command_print_help(const struct command *c, FILE *out)
{
	print_usage(c, out);
	fprintf(out, "\n%s\n", c->summary);
	if (option_walk_next(&(struct option_walk){ .row = { c->options } })) {
		fputs("\noptions:\n", out);
		print_options(c->options, out);
	}
	if (c->help)
		fprintf(out, "\n%s", c->help);
}

void command_print_overview(FILE *out)
{
	const struct command *const *c;

	fputs("watchctl records every access to a variable of a running program, with its stack; and reports the "
	      "first call\nin which a bad run differs from a good one.\n\n",
	      out);
	print_usage(&cmd_watch, out);
	fputs("       watchctl COMMAND ...\n\ncommands:\n", out);
	for (c = commands; *c; c++)
		fprintf(out, "  %-22s  %s\n", (*c)->name, (*c)->summary);
	fputs("\nwatchctl COMMAND --help explains it; options without a command mean watch.\n"
	      "watchctl --version prints the version.\n",
	      out);
}
