/* What a word can go on with: depends on the command, the option in front of it, and what the target has. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/cli/command.h"
#include "watchctl/cli/repl/repl.h"
#include "watchctl/cli/repl/repl_feed.h"

#define NAMES_MOST 2000

struct candidates {
	struct repl *repl;
	const char *word;
	char **v; /* ended by NULL once it is handed out */
	size_t n, cap;
	bool files, unfinished;
};

static bool repl_complete_add(void *ctx, const char *text)
{
	struct candidates *c = ctx;
	char *copy;

	if (strncmp(text, c->word, strlen(c->word)) != 0)
		return true;
	copy = strdup(text);
	if (copy && vec_push(c->v, c->n, c->cap, copy))
		return true;
	free(copy);
	return false;
}

static void add_words(struct candidates *c, const char *words)
{
	while (words && *words) {
		int len = (int)strcspn(words, " ");
		char word[64];

		snprintf(word, sizeof(word), "%.*s", len, words);
		repl_complete_add(c, word);
		words += len + (words[len] == ' ');
	}
}

static void add_names(struct candidates *c, enum names_of what)
{
	struct inspect *i;
	struct wc_error *err = repl_inspect(c->repl, &i);

	if (!err)
		err = inspect_names(i, c->word, what, NAMES_MOST, repl_complete_add, c);
	/* Completion that finds nothing says nothing. */
	wc_error_free(err);
	c->unfinished = true;
}

static void add_pids(struct candidates *c)
{
	scoped(closedirp) DIR *proc = opendir("/proc");
	const struct dirent *e;

	while (proc && (e = readdir(proc)))
		if (isdigit((unsigned char)e->d_name[0]))
			repl_complete_add(c, e->d_name);
}

static void add_watches(struct candidates *c)
{
	for (size_t i = 0; i < c->repl->nwatches; i++) {
		char number[16];

		snprintf(number, sizeof(number), "%u", c->repl->watch[i].number);
		repl_complete_add(c, number);
	}
}

static void add_tags(struct candidates *c)
{
	const char *tag;

	for (size_t i = 0; c->repl->feed && (tag = feed_tag(c->repl->feed, i)); i++)
		repl_complete_add(c, tag);
}

static void add_commands(struct candidates *c)
{
	for (const struct repl_command *k = repl_commands; k->name; k++)
		repl_complete_add(c, k->name);
}

static void add_options(struct candidates *c, const struct option *table)
{
	struct option_walk w = { .row = { table } };
	const struct option *o;

	while ((o = option_walk_next(&w))) {
		repl_complete_add(c, o->name);
		if (o->alias)
			repl_complete_add(c, o->alias);
	}
}

static void add_by(struct candidates *c, enum complete_as as, const char *words)
{
	switch (as) {
	case COMPLETE_NOTHING:
		return;
	case COMPLETE_FILE:
	case COMPLETE_DIRECTORY:
	case COMPLETE_PROGRAM:
		c->files = true;
		return;
	case COMPLETE_PID:
		add_pids(c);
		return;
	case COMPLETE_WORDS:
		add_words(c, words);
		return;
	case COMPLETE_COMMAND:
		add_commands(c);
		return;
	case COMPLETE_VARIABLE:
		add_names(c, NAMES_VARIABLES);
		return;
	case COMPLETE_FUNCTION:
		add_names(c, NAMES_FUNCTIONS);
		return;
	}
}

/* The argument of the option @o. */
static void add_argument(struct candidates *c, const struct option *o)
{
	if (!strcmp(o->name, "--tag") || !strcmp(o->name, "--before"))
		add_tags(c);
	else if (!strcmp(o->name, "--caller") || !strcmp(o->name, "--not-caller"))
		add_names(c, NAMES_FUNCTIONS);
	else
		add_by(c, o->complete, o->words);
}

static const struct option *option_of(const struct option *table, const char *word)
{
	struct option_walk w = { .row = { table } };
	const struct option *o;

	while ((o = option_walk_next(&w)) && strcmp(o->name, word) != 0 &&
	       (!o->alias || strcmp(o->alias, word) != 0))
		;
	return o;
}

static void add_expression(struct candidates *c, const struct repl_words *before)
{
	bool executes = false;

	for (size_t i = 1; i < before->n; i++)
		executes |= !strcmp(before->v[i], "-x") || !strcmp(before->v[i], "--execute");
	if (!executes)
		add_names(c, NAMES_VARIABLES);
	if (!c->n && (executes || *c->word))
		add_names(c, NAMES_FUNCTIONS);
}

static void add_operand(struct candidates *c, const struct repl_command *k, const struct repl_words *before)
{
	const struct command *same;

	switch (k->operand) {
	case OPERAND_NONE:
		return;
	case OPERAND_EXPRESSION:
		add_expression(c, before);
		return;
	case OPERAND_PID:
		add_pids(c);
		return;
	case OPERAND_FILE:
	case OPERAND_PROGRAM:
		c->files = true;
		return;
	case OPERAND_WATCH:
		add_watches(c);
		return;
	case OPERAND_COMMAND:
		add_commands(c);
		return;
	case OPERAND_WORDS:
		add_words(c, k->words);
		return;
	case OPERAND_CHILD:
		same = command_find(k->name);
		if (same)
			add_by(c, same->operand, NULL);
		return;
	}
}

static void add_after(struct candidates *c, const struct repl_words *before)
{
	scoped(freep) char *name = strndup(before->v[0], strcspn(before->v[0], "/"));
	const struct option *table, *o;
	const struct repl_command *k;
	const struct command *same;
	struct wc_error *err;

	if (!name)
		return;
	err = repl_command_find(name, &k);
	if (err) {
		wc_error_free(err);
		return;
	}
	same = k->operand == OPERAND_CHILD ? command_find(k->name) : NULL;
	table = k->options ? k->options : same ? same->options : NULL;
	o = before->n > 1 ? option_of(table, before->v[before->n - 1]) : NULL;
	if (o && o->arg)
		add_argument(c, o);
	else if (*c->word == '-' && table)
		add_options(c, table);
	else
		add_operand(c, k, before);
}

char **repl_complete(struct repl *r, const char *line, size_t start, const char *word, bool *files,
		     bool *unfinished)
{
	struct candidates c = { .repl = r, .word = word };
	scoped(repl_words_deinit) struct repl_words before = { 0 };
	scoped(freep) char *head = strndup(line, start);
	struct wc_error *err = head ? repl_split(head, true, &before) : &wc_enomem;
	char *none = NULL;

	if (!err && !before.n)
		add_commands(&c);
	else if (!err)
		add_after(&c, &before);
	wc_error_free(err);
	*files = c.files;
	*unfinished = c.unfinished;
	if (!c.n || !vec_push(c.v, c.n, c.cap, none)) {
		free(c.v);
		return NULL;
	}
	return c.v;
}
