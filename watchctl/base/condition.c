#include "watchctl/base/condition.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"

#define DEPTH_MAX 32

/* Parsing goes on after an error, with trees that nobody looks at: the first error is kept. */
struct parser {
	struct condition *c;
	const struct condition_names *names;
	const char *at;
	unsigned int depth;
	struct wc_error *err;
};

static size_t parse_condition(struct parser *p);

static struct wc_error *make_error(const struct condition *c, enum wc_kind kind, const char *at,
				   const char *fmt, va_list ap)
{
	scoped(freep) char *what = NULL;
	int column = (int)(at - c->text);

	if (vasprintf(&what, fmt, ap) < 0) {
		what = NULL;
		return &wc_enomem;
	}
	return wc_error_new(kind, "%s, at column %d of the %s:\n  %s\n  %*s^", what, column + 1, c->what,
			    c->text, column, "");
}

struct wc_error *condition_error(const struct condition *c, enum wc_kind kind, const char *at,
				 const char *fmt, ...)
{
	struct wc_error *err;
	va_list ap;

	va_start(ap, fmt);
	err = make_error(c, kind, at, fmt, ap);
	va_end(ap);
	return err;
}

static void fail(struct parser *p, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void fail(struct parser *p, const char *at, const char *fmt, ...)
{
	va_list ap;

	if (p->err)
		return;
	va_start(ap, fmt);
	p->err = make_error(p->c, WC_EUSAGE, at, fmt, ap);
	va_end(ap);
}

static size_t add(struct parser *p, struct condition_node node)
{
	if (!vec_push(p->c->v, p->c->n, p->c->cap, node)) {
		free(node.text);
		if (!p->err)
			p->err = &wc_enomem;
		return 0;
	}
	return p->c->n - 1;
}

static const char *start_of(const struct parser *p, size_t i)
{
	return i < p->c->n ? p->c->v[i].start : p->c->text;
}

static size_t add_joined(struct parser *p, struct condition_node node)
{
	if (p->err)
		return 0;
	node.start = start_of(p, node.a);
	return add(p, node);
}

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* Takes @token if it comes next; a word must end there. */
static bool take(struct parser *p, const char *token)
{
	size_t n = strlen(token);

	skip_space(p);
	if (strncmp(p->at, token, n) != 0 || (is_word(*token) && is_word(p->at[n])))
		return false;
	p->at += n;
	return true;
}

/* An operator with which others begin. */
static bool take_single(struct parser *p, char op)
{
	skip_space(p);
	if (*p->at != op || p->at[1] == op || (p->at[1] == '=' && strchr("<>!=", op)))
		return false;
	p->at++;
	return true;
}

static bool goes_deeper(struct parser *p)
{
	if (p->depth++ < DEPTH_MAX)
		return true;
	fail(p, p->at, "The %s is nested too deeply", p->c->what);
	return false;
}

/* How long the name at @at is: "flag", "ns::obj.member", "table[3]->next". */
static size_t name_length(const char *at)
{
	const char *start = at;

	for (;;) {
		if (is_word(*at) || (*at == '.' && is_word(at[1])))
			at++;
		else if ((!strncmp(at, "::", 2) || !strncmp(at, "->", 2)) && is_word(at[2]))
			at += 2;
		else if (*at == '[' && at[1 + strspn(at + 1, "0123456789")] == ']' && at[1] != ']')
			at += 2 + strspn(at + 1, "0123456789");
		else
			return (size_t)(at - start);
	}
}

/* Values */

static size_t add_text(struct parser *p, enum condition_kind kind, const char *at, const char *start,
		       size_t n)
{
	char *text = strndup(start, n);

	if (!text) {
		if (!p->err)
			p->err = &wc_enomem;
		return 0;
	}
	return add(p, (struct condition_node){ .kind = kind, .at = at, .start = at, .text = text });
}

static size_t take_number(struct parser *p)
{
	struct condition_node node = { .kind = CONDITION_INTEGER, .at = p->at, .start = p->at };
	char *end, *float_end;

	errno = 0;
	node.integer = (int64_t)strtoull(p->at, &end, 0);
	/* "3..7" is a range, "3.5" a number. */
	if (strncmp(p->at, "0x", 2) != 0 && ((*end == '.' && end[1] != '.') || *end == 'e' || *end == 'E')) {
		node.kind = CONDITION_FLOAT;
		node.number = strtod(p->at, &float_end);
		end = float_end;
	} else if (errno == ERANGE) {
		fail(p, p->at, "The number is larger than 64 bits");
	}
	p->at = end;
	if (is_word(*end))
		fail(p, end, "Expected the number to end here");
	return add(p, node);
}

static size_t take_character(struct parser *p)
{
	static const char escape[] = "n\nt\tr\r0\0\\\\'\'";
	const char *start = p->at++;
	char value = *p->at;
	size_t i;

	if (value == '\\') {
		p->at++;
		for (i = 0; i + 1 < sizeof(escape) - 1 && escape[i] != *p->at; i += 2)
			;
		value = i + 1 < sizeof(escape) - 1 ? escape[i + 1] : *p->at;
	}
	if (!*p->at || p->at[1] != '\'') {
		fail(p, start, "Expected one character between quotes");
		return 0;
	}
	p->at += 2;
	return add(p, (struct condition_node){ .kind = CONDITION_CHARACTER,
					       .at = start,
					       .start = start,
					       .integer = (unsigned char)value });
}

/* @kind: CONDITION_TEXT, or _CALLER. */
static size_t take_text(struct parser *p, enum condition_kind kind)
{
	const char *start = p->at + 1, *end = strchr(start, '"');

	if (!end) {
		fail(p, p->at, "The text has no end");
		return 0;
	}
	p->at = end + 1;
	return add_text(p, kind, start, start, (size_t)(end - start));
}

static size_t take_braced(struct parser *p)
{
	const char *start = p->at + 1, *end = strchr(start, '}');

	if (!end) {
		fail(p, p->at, "The name has no end: expected }");
		return 0;
	}
	p->at = end + 1;
	return add_text(p, CONDITION_NAME, start, start, (size_t)(end - start));
}

static size_t take_register(struct parser *p)
{
	const char *start = p->at++;

	while (is_word(*p->at))
		p->at++;
	return add_text(p, CONDITION_REGISTER, start, start + 1, (size_t)(p->at - start - 1));
}

/* Function names have nearly all characters in them. */
static size_t take_caller(struct parser *p)
{
	const char *start;

	skip_space(p);
	if (*p->at == '"')
		return take_text(p, CONDITION_CALLER);
	start = p->at;
	p->at += strcspn(start, " \t()&|!");
	if (p->at == start)
		fail(p, start, "Expected the name of a function after caller");
	return add_text(p, CONDITION_CALLER, start, start, (size_t)(p->at - start));
}

static size_t take_word(struct parser *p)
{
	const struct condition_names *names = p->names;
	size_t n = name_length(p->at);
	const char *start = p->at;

	if (!(names && names->is_name && names->is_name(names->ctx, start, n))) {
		if (take(p, "caller"))
			return take_caller(p);
		if (take(p, "not")) {
			fail(p, start, "Expected a value: what negates a condition is !, as in !(a == b)");
			return 0;
		}
	}
	p->at += n;
	return add_text(p, CONDITION_WORD, start, start, n);
}

static size_t value(struct parser *p)
{
	size_t i = 0;

	skip_space(p);
	if (!goes_deeper(p))
		return 0;
	if (take(p, "(")) {
		i = parse_condition(p);
		if (!p->err && !take(p, ")"))
			fail(p, p->at, "Expected )");
	} else if (isdigit((unsigned char)*p->at)) {
		i = take_number(p);
	} else if (is_word(*p->at)) {
		i = take_word(p);
	} else if (*p->at == '$') {
		i = take_register(p);
	} else if (*p->at == '{') {
		i = take_braced(p);
	} else if (*p->at == '\'') {
		i = take_character(p);
	} else if (*p->at == '"') {
		i = take_text(p, CONDITION_TEXT);
	} else {
		fail(p, p->at, "Expected a value%s", *p->at ? "" : ", not the end");
	}
	p->depth--;
	return i;
}

static size_t unary(struct parser *p)
{
	const char *at;
	size_t a;

	skip_space(p);
	at = p->at;
	if (!take_single(p, '-'))
		return value(p);
	if (!goes_deeper(p))
		return 0;
	a = unary(p);
	p->depth--;
	return p->err ? 0
		      : add(p, (struct condition_node){
				       .kind = CONDITION_MINUS, .a = a, .at = at, .start = at });
}

static const struct level {
	const char *op;
	enum condition_op code;
} levels[][3] = {
	{ { "|", CONDITION_OR } },
	{ { "^", CONDITION_XOR } },
	{ { "&", CONDITION_AND } },
	{ { "<<", CONDITION_LEFT }, { ">>", CONDITION_RIGHT } },
	{ { "+", CONDITION_ADD }, { "-", CONDITION_SUB } },
	{ { "*", CONDITION_MUL }, { "/", CONDITION_DIV }, { "%", CONDITION_MOD } },
};

#define LEVELS (sizeof(levels) / sizeof(levels[0]))

static size_t sum(struct parser *p, size_t level)
{
	size_t a;

	if (level == LEVELS)
		return unary(p);
	a = sum(p, level + 1);
	while (!p->err) {
		const struct level *l = levels[level];
		const char *at;
		size_t i;

		skip_space(p);
		at = p->at;
		for (i = 0; i < 3 && l[i].op; i++)
			if (l[i].op[1] ? take(p, l[i].op) : take_single(p, *l[i].op))
				break;
		if (i == 3 || !l[i].op)
			break;
		a = add_joined(p, (struct condition_node){ .kind = CONDITION_CALCULATE,
							   .op = l[i].code,
							   .at = at,
							   .a = a,
							   .b = sum(p, level + 1) });
	}
	return a;
}

/* Truths */

static size_t in_range(struct parser *p, const char *at, size_t a, bool negated)
{
	struct condition_node node = { .kind = CONDITION_IN, .at = at, .a = a, .negated = negated };

	node.b = sum(p, 0);
	if (!p->err && !take(p, ".."))
		fail(p, p->at, "Expected .. and the upper end of the range");
	node.c = p->err ? 0 : sum(p, 0);
	return add_joined(p, node);
}

static size_t compared(struct parser *p)
{
	static const struct {
		const char *token;
		enum condition_op op;
	} ops[] = { { "==", CONDITION_EQUAL },	     { "!=", CONDITION_NOT_EQUAL },
		    { "<=", CONDITION_NOT_GREATER }, { ">=", CONDITION_NOT_LESS },
		    { "<", CONDITION_LESS },	     { ">", CONDITION_GREATER } };
	size_t a = sum(p, 0), i;
	const char *at;

	skip_space(p);
	at = p->at;
	if (p->err)
		return 0;
	for (i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (ops[i].token[1] ? !take(p, ops[i].token) : !take_single(p, *ops[i].token))
			continue;
		return add_joined(p, (struct condition_node){ .kind = CONDITION_COMPARE,
							      .op = ops[i].op,
							      .at = at,
							      .a = a,
							      .b = sum(p, 0) });
	}
	if (take(p, "in"))
		return in_range(p, at, a, false);
	if (take(p, "not")) {
		if (take(p, "in"))
			return in_range(p, at, a, true);
		fail(p, p->at, "Expected in");
	}
	if (*at == '=')
		fail(p, at, "Expected == (a single = compares nothing)");
	return a;
}

/* "!a == b" is "(!a) == b" in C, and hardly what is meant: neither is guessed. */
static void check_negated(struct parser *p)
{
	skip_space(p);
	if (!*p->at)
		return;
	if (strchr("=<>!+-*/%^", *p->at) || (strchr("&|", *p->at) && p->at[1] != *p->at))
		fail(p, p->at, "Expected the end of what ! negates: put it in parentheses, !(a == b)");
	else if (take(p, "in") || take(p, "not"))
		fail(p, p->at, "Expected the end of what ! negates: put it in parentheses, !(a in 1..3)");
}

static size_t parse_not(struct parser *p)
{
	const char *at;
	size_t a;

	skip_space(p);
	at = p->at;
	if (*at != '!' || at[1] == '=')
		return compared(p);
	p->at++;
	if (!goes_deeper(p))
		return 0;
	skip_space(p);
	a = *p->at == '!' ? parse_not(p) : unary(p);
	p->depth--;
	if (!p->err)
		check_negated(p);
	return p->err ? 0
		      : add(p,
			    (struct condition_node){ .kind = CONDITION_NOT, .a = a, .at = at, .start = at });
}

static size_t both(struct parser *p)
{
	size_t a = parse_not(p);
	const char *at;

	for (skip_space(p); at = p->at, !p->err && (take(p, "&&") || take(p, "and")); skip_space(p))
		a = add_joined(p, (struct condition_node){
					  .kind = CONDITION_BOTH, .at = at, .a = a, .b = parse_not(p) });
	return a;
}

static size_t parse_condition(struct parser *p)
{
	size_t a = both(p);
	const char *at;

	for (skip_space(p); at = p->at, !p->err && (take(p, "||") || take(p, "or")); skip_space(p))
		a = add_joined(p, (struct condition_node){
					  .kind = CONDITION_EITHER, .at = at, .a = a, .b = both(p) });
	return a;
}

struct wc_error *condition_parse(const char *text, const char *what, const struct condition_names *names,
				 struct condition *ret)
{
	struct condition c = { .what = what, .text = strdup(text) };
	struct parser p = { .c = &c, .names = names, .at = c.text };

	if (!c.text)
		return &wc_enomem;
	c.root = parse_condition(&p);
	skip_space(&p);
	if (!p.err && *p.at)
		fail(&p, p.at, "Expected the end of the %s, or && or ||", what);
	if (p.err) {
		condition_deinit(&c);
		return p.err;
	}
	*ret = c;
	return NULL;
}

void condition_deinit(struct condition *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->v[i].text);
	free(c->v);
	free(c->text);
	*c = (struct condition){ 0 };
}
