#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/cli/command.h"
#include "watchctl/base/words/similar.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/repl/repl.h"

/* Columns of the help. */
#define NAME_WIDTH 12
#define OPTION_WIDTH 22
#define PIPE_WIDTH 100

static struct wc_error *quit(struct repl *r, int argc, char **argv)
{
	r->quit = true;
	return NULL;
}

/* In the order of the help. */
const struct repl_command repl_commands[] = {
	{ "attach", "PID [options]",
	  "begin a session with a running process; watches requested before are armed",
	  "watchctl -p PID -v EXPR ...", repl_attach_options, OPERAND_PID, .run = repl_attach },
	{ "run", "[options] PROGRAM [ARGS] [< FILE] [> FILE]",
	  "start a program; watches requested before are armed before its first instruction; without PROGRAM, the "
	  "last one again",
	  "watchctl -v EXPR ... -- PROGRAM [ARGS]", repl_attach_options, OPERAND_PROGRAM, .takes_rest = true,
	  .run = repl_run_program },
	{ "open", "LOG", "read a log, including one that is being recorded", "watchctl report LOG", NULL,
	  OPERAND_FILE, .run = repl_open },
	{ "detach", "", "end the session; the program continues undisturbed", "Ctrl-C in watchctl -p PID",
	  NULL, OPERAND_NONE, .run = repl_detach },
	{ "kill", "", "kill the program that was started with run", "kill PID", NULL, OPERAND_NONE,
	  .run = repl_kill },
	{ "watch", "EXPR [options]", "record every access to a variable (-x: every execution of code)",
	  "watchctl -p PID -v EXPR [options]", repl_watch_options, OPERAND_EXPRESSION, .run = repl_watch },
	{ "disable", "NUMBER...", "switch a watch off, to be enabled again", "the options of watchctl -v",
	  NULL, OPERAND_WATCH, .run = repl_disable },
	{ "enable", "NUMBER...", "switch it on again", "the options of watchctl -v", NULL, OPERAND_WATCH,
	  .run = repl_enable },
	{ "delete", "[NUMBER...]", "delete a watch, or all", "the options of watchctl -v", NULL,
	  OPERAND_WATCH, .run = repl_delete },
	{ "info", "[watches|threads|modules|engine|target]", "show the state",
	  "watchctl list -p PID; watchctl report --json LOG", NULL, OPERAND_WORDS,
	  "watches threads modules engine target", .run = repl_info },
	{ "sites", "", "the table of accesses by site", "watchctl report --sites LOG", NULL, OPERAND_NONE,
	  .run = repl_sites },
	{ "show", "[N]", "an event in full: values, registers, stack, source and instructions",
	  "watchctl report --regs LOG", NULL, OPERAND_NONE, .run = repl_show },
	{ "bt", "[N]", "the stack of an event", "watchctl report LOG", NULL, OPERAND_NONE, .run = repl_bt },
	{ "regs", "[N]", "the registers of an event, after the access", "watchctl report --regs LOG", NULL,
	  OPERAND_NONE, .run = repl_regs },
	{ "list", "[N]", "the source around the place of an event", "watchctl report LOG names file and line",
	  NULL, OPERAND_NONE, .run = repl_list },
	{ "disassemble", "[N]", "the instructions around the place of an event",
	  "watchctl report LOG --html FILE", NULL, OPERAND_NONE, .run = repl_disassemble },
	{ "log", "[on|off|summary]", "print events as they arrive, not at all, or their number each second",
	  "watchctl -q", NULL, OPERAND_WORDS, "on off summary", .run = repl_log },
	{ "print", "[/F] EXPR", "the value of a variable now; F is one of x d u o t c a f s",
	  "watchctl repl FILE", NULL, OPERAND_EXPRESSION, .takes_rest = true, .takes_format = true,
	  .run = repl_print },
	{ "x", "[/NFS] ADDRESS",
	  "memory: N of the format F (x d u o t c a f s i) and the size S (b h w g); an empty line continues",
	  "watchctl repl FILE", NULL, OPERAND_EXPRESSION, .takes_rest = true, .takes_format = true,
	  .run = repl_examine },
	{ "save", "LOG", "save what was recorded so far as a new log", "watchctl -o LOG; watchctl snapshot",
	  NULL, OPERAND_FILE, .run = repl_save },
	{ "report", "[options] [LOG]", "watchctl report, of this session's log if none is named",
	  "watchctl report LOG", NULL, OPERAND_CHILD, .run = repl_child },
	{ "export", "[options] [LOG]", "watchctl export, likewise", "watchctl export LOG", NULL,
	  OPERAND_CHILD, .run = repl_child },
	{ "step", "[options] ...", "watchctl step: record the calls of a range of functions",
	  "watchctl step ...", NULL, OPERAND_CHILD, .run = repl_child },
	{ "diff", "[options] LOG LOG", "watchctl diff: the first call that differs", "watchctl diff ...",
	  NULL, OPERAND_CHILD, .run = repl_child },
	{ "wait", "[SECONDS] [-n COUNT]", "wait for events or the end of the program, for scripts",
	  "watchctl -n COUNT -t SECONDS", repl_wait_options, OPERAND_NONE, .run = repl_wait },
	{ "source", "FILE", "run the commands in a file, up to the first error", "watchctl repl FILE", NULL,
	  OPERAND_FILE, .run = repl_source },
	{ "help", "[COMMAND]", "explain all commands, or one", "watchctl repl --help", NULL, OPERAND_COMMAND,
	  .run = repl_help },
	{ "quit", "", "end the prompt; the program continues", NULL, NULL, OPERAND_NONE, .run = quit },
	{ 0 },
};

/* "; did you mean watch or wait?", or where to look. */
static void hint(const char *name, char *buf, size_t cap)
{
	struct similar similar;
	char list[160];

	similar_init(&similar, name, strlen(name));
	for (const struct repl_command *c = repl_commands; c->name; c++)
		similar_offer(&similar, c->name);
	if (similar_list(&similar, list, sizeof(list)))
		snprintf(buf, cap, "; did you mean %s?", list);
	else
		snprintf(buf, cap, ": help lists them");
}

struct wc_error *repl_command_find(const char *name, const struct repl_command **ret)
{
	const struct repl_command *found = NULL;
	char list[200] = "";
	size_t len = strlen(name), n = 0;

	for (const struct repl_command *c = repl_commands; c->name; c++) {
		if (strncmp(c->name, name, len) != 0)
			continue;
		if (!c->name[len]) {
			*ret = c;
			return NULL;
		}
		found = c;
		n++;
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", *list ? ", " : "",
			 c->name);
	}
	if (n == 1) {
		*ret = found;
		return NULL;
	}
	if (n)
		return wc_error_new(WC_EUSAGE, "\"%s\" may be %s: type more of it", name, list);
	hint(name, list, sizeof(list));
	return wc_error_new(WC_EUSAGE, "there is no command \"%s\"%s", name, list);
}

/* argv of a command that takes the rest of the line as it is: what follows the slash, and the rest. */
static struct wc_error *run_raw(struct repl *r, const struct repl_command *c, char *format, char *rest)
{
	size_t len = strlen(rest);
	char *argv[] = { format, rest, NULL };

	while (len && isspace((unsigned char)rest[len - 1]))
		rest[--len] = '\0';
	return c->run(r, *rest ? 2 : 1, argv);
}

static struct wc_error *run_words(struct repl *r, const struct repl_command *c, const char *line)
{
	scoped(repl_words_deinit) struct repl_words w = { 0 };
	struct wc_error *err = repl_split(line, false, &w);
	char *name;

	if (err)
		return err;
	/* Abbreviations end here. */
	name = strdup(c->name);
	if (!name)
		return &wc_enomem;
	free(w.v[0]);
	w.v[0] = name;
	for (size_t i = 1; i < w.n; i++)
		if (c->options && c->operand != OPERAND_PROGRAM && !strcmp(w.v[i], "--help"))
			return repl_help(r, 2, (char *[]){ (char *)"help", name, NULL });
	return c->run(r, (int)w.n, w.v);
}

struct wc_error *repl_run_line(struct repl *r, const char *line)
{
	const struct repl_command *c;
	scoped(freep) char *copy = NULL;
	char *name, *rest, *slash, none[] = "";
	struct wc_error *err;

	line += strspn(line, " \t\r\n");
	if (!*line || *line == '#')
		return NULL;
	copy = strdup(line);
	if (!copy)
		return &wc_enomem;
	name = copy;
	rest = copy + strcspn(copy, " \t\r\n");
	if (*rest)
		*rest++ = '\0';
	rest += strspn(rest, " \t\r\n");
	slash = strchr(name, '/');
	if (slash)
		*slash++ = '\0';
	err = repl_command_find(name, &c);
	if (err)
		return err;
	if (slash && !c->takes_format)
		return wc_error_new(WC_EUSAGE, "%s takes no format: write %s %s", c->name, c->name, c->args);
	/* "print /x flag" is as good as "print/x flag". */
	if (c->takes_format && !slash && *rest == '/') {
		slash = rest + 1;
		rest += strcspn(rest, " \t\r\n");
		if (*rest)
			*rest++ = '\0';
		rest += strspn(rest, " \t\r\n");
	}
	return c->takes_rest ? run_raw(r, c, slash ? slash : none, rest) : run_words(r, c, line);
}

struct wc_error *repl_run_empty(struct repl *r)
{
	char count[16], *argv[] = { count, NULL };

	/* As many as the last time. */
	snprintf(count, sizeof(count), "%u", r->examine.count);
	return r->examine.has_next ? repl_examine(r, 1, argv) : NULL;
}

/* Text that begins at column @indent, and goes on there in the next lines where @width (0: any) is full. */
static void print_wrapped(const char *text, size_t indent, size_t width)
{
	size_t used = indent;

	while (*text) {
		size_t word = strcspn(text, " ");

		if (width && used > indent && used + 1 + word > width) {
			printf("\n%*s", (int)indent, "");
			used = indent;
		}
		used += (size_t)printf("%s%.*s", used > indent ? " " : "", (int)word, text);
		text += word + (text[word] == ' ');
	}
	putchar('\n');
}

static void print_options(const struct option *table, size_t width)
{
	struct option_walk w = { .row = { table } };
	const struct option *o;

	while ((o = option_walk_next(&w))) {
		char text[80];

		snprintf(text, sizeof(text), "%s%s%s%s%s", o->name, o->alias ? ", " : "",
			 o->alias ? o->alias : "", o->arg ? " " : "", o->arg ? o->arg : "");
		if (strlen(text) > OPTION_WIDTH)
			printf("  %s\n  %*s  ", text, OPTION_WIDTH, "");
		else
			printf("  %-*s  ", OPTION_WIDTH, text);
		print_wrapped(o->help, 2 + OPTION_WIDTH + 2, width);
	}
}

static void print_one(const struct repl_command *c, size_t width)
{
	const struct command *same = c->operand == OPERAND_CHILD ? command_find(c->name) : NULL;

	printf("usage: %s%s%s\n\n", c->name, *c->args ? " " : "", c->args);
	print_wrapped(c->summary, 0, width);
	if (c->options || (same && same->options)) {
		puts("\noptions:");
		print_options(c->options ? c->options : same->options, width);
	}
	if (c->script)
		printf("\nin a script: %s\n", c->script);
}

struct wc_error *repl_help(struct repl *r, int argc, char **argv)
{
	size_t width = r->interactive ? terminal_width(STDOUT_FILENO) : 0;
	const struct repl_command *c;
	struct wc_error *err;

	if (argc > 2)
		return wc_error_new(WC_EUSAGE, "help takes one command at most");
	if (argc == 2) {
		err = repl_command_find(argv[1], &c);
		if (!err)
			print_one(c, width);
		return err;
	}
	for (c = repl_commands; c->name; c++) {
		printf("  %-*s  ", NAME_WIDTH, c->name);
		print_wrapped(c->summary, 2 + NAME_WIDTH + 2, width);
	}
	putchar('\n');
	print_wrapped(
		"help COMMAND explains one. Names may be abbreviated as long as they are unique; Tab completes. EXPR "
		"is flag, file.c:flag, server.stats.hits, table[3].state, head->next->len, *p or 0x7ffe12345678:4.",
		0, width ? width : PIPE_WIDTH);
	return NULL;
}
