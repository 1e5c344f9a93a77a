/*
 * flow_rules_parse - the language of watchctl-flow-rules(5), a rule a line:
 *
 *	line	= [ wait | return | edge | join | use ] [ "#" ... ]
 *	wait	= ( "idle" | "inside" ) { "process" globs | "thread" globs } calls [ "on" kinds ]
 *	return	= ( "begin" | "end" | "keep" ) likewise
 *	edge	= ( "false" | "true" ) edges { "from" glob | "to" glob } [ "on" kinds ]
 *	join	= "join" edge "from" end "to" end
 *	end	= { "process" globs | "thread" globs } calls "on" kinds
 *	use	= "use" set [ "process" glob | "thread" glob ]
 *	globs, calls, kinds, edges = word { "," word }
 *	word	= characters but for blanks, ',' and '#', or any in '"'
 *
 * Later rules win. A list makes as many rules as it has words, so a rule in the table has one of each.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/base/words/similar.h"
#include "watchctl/flow/kernel/flow_calls.h"
#include "watchctl/flow/rules/flow_rules_impl.h"

#define LIST_MOST 64
#define TESTS_MOST 1024
#define RULES_MOST (1u << 16)
#define USES_MOST 8

struct word {
	const char *start;
	size_t len; /* 0: the line ends here */
	bool quoted;
};

/* Of one text. */
struct parser {
	struct flow_rules *r;
	const char *name, *line, *end; /* the line's end */
	unsigned int number;
	const char *at; /* behind `word` */
	struct word word;
	uint16_t outer;
	unsigned int depth;
};

struct list {
	uint16_t v[LIST_MOST];
	size_t n;
};

static const char *const statements[] = {
	[RULE_INSIDE] = "inside", [RULE_IDLE] = "idle",	  [RULE_KEEP] = "keep", [RULE_BEGIN] = "begin",
	[RULE_END] = "end",	  [RULE_FALSE] = "false", [RULE_TRUE] = "true", [RULE_JOIN] = "join",
};

#define STATEMENTS (sizeof(statements) / sizeof(statements[0]))

/* Errors */

static struct wc_error *fail(const struct parser *p, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The line, with blanks for tabs: an error's text has none, and the caret is to be below the word. */
static char *shown_line(const struct parser *p)
{
	char *line = strndup(p->line, (size_t)(p->end - p->line));

	for (char *c = line; c && *c; c++)
		if (*c == '\t')
			*c = ' ';
	return line;
}

static struct wc_error *fail(const struct parser *p, const char *at, const char *fmt, ...)
{
	scoped(freep) char *line = shown_line(p), *why = NULL;
	const int column = (int)(at - p->line);
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&why, fmt, ap);
	va_end(ap);
	if (n < 0)
		why = NULL;
	if (!why || !line)
		return &wc_enomem;
	return wc_error_new(WC_EUSAGE, "%s, at column %d of line %u of %s:\n  %s\n  %*s^", why, column + 1,
			    p->number, p->name, line, column, "");
}

/* @name tells the words that there are, by number, or NULL where a number has none. */
static struct wc_error *fail_unknown(const struct parser *p, const char *sort, const char *(*name)(int),
				     int n)
{
	const int len = (int)p->word.len;
	struct similar near;
	char list[128];

	similar_init(&near, p->word.start, p->word.len);
	for (int i = 0; i < n; i++)
		if (name(i))
			similar_offer(&near, name(i));
	if (similar_list(&near, list, sizeof(list)))
		return fail(p, p->word.start, "\"%.*s\" is no %s (did you mean %s?)", len, p->word.start,
			    sort, list);
	return fail(p, p->word.start, "\"%.*s\" is no %s that watchctl-flow-rules(5) lists", len,
		    p->word.start, sort);
}

/* Words */

static bool ends_word(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == ',' || c == '#' || c == '"';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct wc_error *next_quoted(struct parser *p)
{
	const char *end = memchr(p->at + 1, '"', (size_t)(p->end - p->at) - 1);

	if (!end)
		return fail(p, p->at, "The name has no end: expected \"");
	if (end == p->at + 1)
		return fail(p, p->at, "Expected a name between the quotes");
	p->word = (struct word){ .start = p->at + 1, .len = (size_t)(end - p->at) - 1, .quoted = true };
	p->at = end + 1;
	return NULL;
}

static struct wc_error *next(struct parser *p)
{
	const char *at;

	while (p->at < p->end && is_blank(*p->at))
		p->at++;
	at = p->at;
	p->word = (struct word){ .start = at };
	if (at == p->end || *at == '#')
		return NULL;
	if (*at == '"')
		return next_quoted(p);
	if (*at == ',')
		at++;
	else
		while (at < p->end && !ends_word(*at))
			at++;
	p->word.len = (size_t)(at - p->at);
	p->at = at;
	return NULL;
}

static bool is(const struct parser *p, const char *word)
{
	return !p->word.quoted && p->word.len == strlen(word) && !memcmp(p->word.start, word, p->word.len);
}

/* A word stands here, which is no comma. */
static struct wc_error *expect(const struct parser *p, const char *sort)
{
	return p->word.len && !is(p, ",") ? NULL : fail(p, p->word.start, "Expected a %s", sort);
}

/* Takes what the current word stands for. */
typedef struct wc_error *word_taker(struct parser *p, void *ctx, uint16_t *ret);

static struct wc_error *take_list(struct parser *p, const char *sort, word_taker *take, void *ctx,
				  struct list *ret)
{
	uint16_t v = 0;
	struct wc_error *err;

	ret->n = 0;
	for (;;) {
		err = expect(p, sort);
		if (!err && ret->n == LIST_MOST)
			err = fail(p, p->word.start, "A list has at most %d words", LIST_MOST);
		if (!err)
			err = take(p, ctx, &v);
		if (!err)
			err = next(p);
		if (err)
			return err;
		ret->v[ret->n++] = v;
		if (!is(p, ","))
			return NULL;
		err = next(p);
		if (err)
			return err;
	}
}

static struct wc_error *take_glob(struct parser *p, void *ctx, uint16_t *ret)
{
	const enum name_of of = *(const enum name_of *)ctx;
	struct flow_rules *r = p->r;
	struct test t = { .of = of, .glob = strndup(p->word.start, p->word.len) };
	size_t i;

	if (!t.glob)
		return &wc_enomem;
	for (i = 0; i < r->ntests; i++)
		if (r->test[i].of == of && !strcmp(r->test[i].glob, t.glob))
			break;
	*ret = (uint16_t)i;
	if (i < r->ntests) {
		free(t.glob);
		return NULL;
	}
	if (i == TESTS_MOST) {
		free(t.glob);
		return fail(p, p->word.start, "The rules have more than %d names", TESTS_MOST);
	}
	if (vec_push(r->test, r->ntests, r->tests_cap, t))
		return NULL;
	free(t.glob);
	return &wc_enomem;
}

/* A return that the recorder does not tell can begin and end nothing. */
static struct wc_error *check_return(const struct parser *p, int place)
{
	uint8_t class[FLOW_CALLS];

	flow_calls_fill(class);
	if (place < (int)FLOW_CALLS && class[place] & FLOW_CALL_RETURN)
		return NULL;
	return fail(p, p->word.start,
		    "No return of %.*s is recorded: it can neither begin nor end a unit of work",
		    (int)p->word.len, p->word.start);
}

static struct wc_error *take_place(struct parser *p, void *ctx, uint16_t *ret)
{
	const enum rule_verb verb = *(const enum rule_verb *)ctx;
	const int place = flow_rules_place(p->word.start, p->word.len);

	if (place < 0)
		return fail_unknown(p, "system call", flow_rules_place_name, PLACES);
	*ret = (uint16_t)place;
	return verb == RULE_INSIDE || verb == RULE_IDLE ? NULL : check_return(p, place);
}

static struct wc_error *take_column(struct parser *p, void *ctx, uint16_t *ret)
{
	const int column = flow_rules_column(p->word.start, p->word.len);
	uint32_t may = *(const uint32_t *)ctx;

	if (column < 0)
		return fail_unknown(p, "kind of object", flow_rules_column_name, COLUMNS);
	if (!(may >> column & 1))
		return fail(p, p->word.start, "\"%.*s\" is a kind of %s alone", (int)p->word.len,
			    p->word.start, column >= COLUMN_FUTEXES ? "waits in futex" : "descriptors");
	*ret = (uint16_t)column;
	return NULL;
}

static const char *edge_name(int kind)
{
	return flow_edge_kind_names[kind];
}

static struct wc_error *take_edge(struct parser *p, void *ctx, uint16_t *ret)
{
	const int kind = flow_rules_edge(p->word.start, p->word.len);

	(void)ctx;
	if (kind < 0)
		return fail_unknown(p, "kind of connection", edge_name, FLOW_EDGE_WEAK);
	*ret = (uint16_t)kind;
	return NULL;
}

/* Statements */

static uint32_t bits_of(const struct list *l)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < l->n; i++)
		bits |= 1u << l->v[i];
	return bits;
}

/* @may: the columns that can be meant. */
static struct wc_error *take_on(struct parser *p, uint32_t may, uint32_t *ret)
{
	struct list kinds;
	struct wc_error *err;

	*ret = ALL_COLUMNS;
	if (!is(p, "on"))
		return NULL;
	err = next(p);
	if (!err)
		err = take_list(p, "kind of object", take_column, &may, &kinds);
	if (!err)
		*ret = bits_of(&kinds);
	return err;
}

/* @word, if it stands here, and the names behind it; else as if by any name. */
static struct wc_error *take_names(struct parser *p, const char *word, enum name_of of, struct list *ret)
{
	struct wc_error *err;

	if (!is(p, word)) {
		*ret = (struct list){ .v = { NO_TEST }, .n = 1 };
		return NULL;
	}
	err = next(p);
	return err ? err : take_list(p, "name", take_glob, &of, ret);
}

static struct wc_error *expect_end(const struct parser *p)
{
	return p->word.len ? fail(p, p->word.start, "Expected the end of the line") : NULL;
}

static struct wc_error *add(struct parser *p, const struct rule *rule)
{
	if (p->r->nrules == RULES_MOST)
		return fail(p, p->line, "There are more than %u rules", RULES_MOST);
	return vec_push(p->r->rule, p->r->nrules, p->r->rules_cap, *rule) ? NULL : &wc_enomem;
}

static struct wc_error *add_for_names(struct parser *p, struct rule rule, const struct list *processes,
				      const struct list *threads)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; !err && i < processes->n * threads->n; i++) {
		rule.process = processes->v[i / threads->n];
		rule.thread = threads->v[i % threads->n];
		err = add(p, &rule);
	}
	return err;
}

/* Columns that every one of @places may have. Only waits in futex() have those of futexes. */
static uint32_t columns_of(enum rule_verb verb, const struct list *places)
{
	const int futex = flow_rules_place("futex", strlen("futex"));
	uint32_t may = ALL_COLUMNS;

	for (size_t i = 0; i < places->n; i++) {
		const bool is_futex = places->v[i] == futex;

		may &= is_futex && (verb == RULE_INSIDE || verb == RULE_IDLE) ? FUTEX_COLUMNS
									      : ALL_COLUMNS & ~FUTEX_COLUMNS;
	}
	return may;
}

/* Names, calls and kinds, for a rule like @rule. */
static struct wc_error *take_calls(struct parser *p, struct rule rule)
{
	struct list processes, threads, places = { .n = 0 };
	struct wc_error *err = take_names(p, "process", NAME_OF_PROCESS, &processes);

	if (!err)
		err = take_names(p, "thread", NAME_OF_THREAD, &threads);
	if (!err)
		err = take_list(p, "system call", take_place, &rule.verb, &places);
	if (!err)
		err = take_on(p, columns_of(rule.verb, &places), &rule.columns);
	for (size_t i = 0; !err && i < places.n; i++) {
		rule.place = places.v[i];
		err = add_for_names(p, rule, &processes, &threads);
	}
	return err;
}

static struct wc_error *take_call_rule(struct parser *p, enum rule_verb verb)
{
	struct wc_error *err = take_calls(p, (struct rule){ .verb = verb, .outer = p->outer });

	return err ? err : expect_end(p);
}

/* @word must stand here, and is taken. */
static struct wc_error *take_this(struct parser *p, const char *word)
{
	return is(p, word) ? next(p) : fail(p, p->word.start, "Expected \"%s\"", word);
}

static struct wc_error *take_join_rule(struct parser *p)
{
	struct rule rule = { .verb = RULE_JOIN_FROM, .outer = p->outer };
	uint16_t edge = 0;
	struct wc_error *err = expect(p, "kind of connection");

	if (!err && p->r->njoins == JOINS_MOST)
		err = fail(p, p->word.start, "There are more than %d rules \"join\"", JOINS_MOST);
	if (!err)
		err = take_edge(p, NULL, &edge);
	if (err)
		return err;
	rule.join = ++p->r->njoins;
	p->r->join_edge[rule.join] = (uint8_t)edge;
	err = next(p);
	if (!err)
		err = take_this(p, "from");
	if (!err)
		err = take_calls(p, rule);
	if (!err)
		err = take_this(p, "to");
	rule.verb = RULE_JOIN_TO;
	if (!err)
		err = take_calls(p, rule);
	return err ? err : expect_end(p);
}

static struct wc_error *take_edge_rule(struct parser *p, enum rule_verb verb)
{
	struct list edges, from, to;
	struct rule rule = { .verb = verb, .outer = p->outer };
	struct wc_error *err = take_list(p, "kind of connection", take_edge, NULL, &edges);

	if (!err)
		err = take_names(p, "from", NAME_OF_EITHER, &from);
	if (!err)
		err = take_names(p, "to", NAME_OF_EITHER, &to);
	if (!err)
		err = take_on(p, ALL_COLUMNS & ~FUTEX_COLUMNS, &rule.columns);
	if (!err)
		err = expect_end(p);
	if (err)
		return err;
	rule.edges = bits_of(&edges);
	p->r->has_false |= verb == RULE_FALSE;
	for (size_t i = 0; !err && i < from.n * to.n; i++) {
		rule.from = from.v[i / to.n];
		rule.to = to.v[i % to.n];
		err = add(p, &rule);
	}
	return err;
}

static const char *set_name(int i)
{
	const char *name, *text;

	return flow_rules_set((size_t)i, &name, &text) ? name : NULL;
}

static struct wc_error *parse_lines(struct parser *p, const char *text);

/* A set within another one that is used for some names has but one of both. */
static struct wc_error *take_for(struct parser *p, uint16_t *ret)
{
	enum name_of of = is(p, "thread") ? NAME_OF_THREAD : NAME_OF_PROCESS;
	struct wc_error *err;

	*ret = p->outer;
	if (!is(p, "process") && !is(p, "thread"))
		return NULL;
	if (p->outer != NO_TEST)
		return fail(p, p->word.start, "The text was itself used for some names only");
	err = next(p);
	if (!err)
		err = expect(p, "name");
	if (!err)
		err = take_glob(p, &of, ret);
	return err ? err : next(p);
}

static struct wc_error *take_use(struct parser *p)
{
	struct parser used = { .r = p->r, .depth = p->depth + 1 };
	const struct word set = p->word;
	struct wc_error *err = expect(p, "name of a set of rules");
	const char *text;

	if (err)
		return err;
	text = flow_rules_set_text(set.start, set.len);
	if (!text)
		return fail_unknown(p, "set of rules", set_name, LIST_MOST);
	if (used.depth > USES_MOST)
		return fail(p, set.start, "Sets use each other more than %d deep", USES_MOST);
	err = next(p);
	if (!err)
		err = take_for(p, &used.outer);
	if (!err)
		err = expect_end(p);
	if (err)
		return err;
	used.name = flow_rules_set_name(text);
	return parse_lines(&used, text);
}

static const char *statement_name(int i)
{
	return i < (int)STATEMENTS ? statements[i] : "use";
}

static struct wc_error *take_statement(struct parser *p)
{
	enum rule_verb verb = 0;
	struct wc_error *err;

	while (verb < STATEMENTS && !is(p, statements[verb]))
		verb++;
	if (verb == STATEMENTS && !is(p, "use"))
		return fail_unknown(p, "statement", statement_name, STATEMENTS + 1);
	err = next(p);
	if (err)
		return err;
	if (verb == STATEMENTS)
		return take_use(p);
	if (verb == RULE_JOIN)
		return take_join_rule(p);
	return verb == RULE_FALSE || verb == RULE_TRUE ? take_edge_rule(p, verb) : take_call_rule(p, verb);
}

static struct wc_error *parse_lines(struct parser *p, const char *text)
{
	struct wc_error *err = NULL;

	for (; !err && *text; text = p->end + (*p->end == '\n')) {
		p->line = p->at = text;
		p->end = text + strcspn(text, "\n");
		p->number++;
		err = next(p);
		if (!err && p->word.len)
			err = take_statement(p);
	}
	return err;
}

struct wc_error *flow_rules_parse(struct flow_rules *r, const char *name, const char *text)
{
	struct parser p = { .r = r, .name = name, .outer = NO_TEST };

	return parse_lines(&p, text);
}
