/*
 * A recursive-descent parser. Two things need care. A single ':' ends a prefix while "::" is part of a
 * name, so prefixes are split off before the rest is read. And names are wider than C identifiers:
 * templates ("box<int, 3>::count"), "(anonymous namespace)", Rust's "{impl#0}", and Go's import paths
 * ("example.com/my-app/db.Pool", where only what follows the last '/' may be members).
 */
#include "watchctl/code/lookup/locate_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"

#define ANONYMOUS "(anonymous namespace)"
#define DEPTH_MAX 64

struct parser {
	const char *text, *at;
	struct locate_expr *expr;
	unsigned int depth;
};

struct wc_error *locate_expected(const char *text, const char *at, const char *fmt, ...)
{
	int column = (int)(at - text);
	scoped(freep) char *what = NULL;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&what, fmt, ap);
	va_end(ap);
	if (n < 0) {
		what = NULL;
		return &wc_enomem;
	}
	return wc_error_new(WC_EUSAGE, "Expected %s at column %d of the expression:\n  %s\n  %*s^", what,
			    column + 1, text, column, "");
}

#define expected(p, ...) locate_expected((p)->text, (p)->at, __VA_ARGS__)

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool starts_name(const char *s)
{
	unsigned char c = (unsigned char)*s;

	return isalpha(c) || c == '_' || c == '$' || c >= 0x80 || c == '{' || strncmp(s, "::", 2) == 0 ||
	       strncmp(s, ANONYMOUS, strlen(ANONYMOUS)) == 0;
}

static bool continues_word(char ch)
{
	unsigned char c = (unsigned char)ch;

	return isalnum(c) || c == '_' || c == '$' || c >= 0x80;
}

const char *locate_skip_balanced(const char *s)
{
	static const char open[] = "<({[", close[] = ">)}]";
	char stack[DEPTH_MAX];
	size_t n = 0;

	for (; *s; s++) {
		const char *o = strchr(open, *s), *c = strchr(close, *s);

		if (o) {
			if (n == DEPTH_MAX)
				return NULL;
			stack[n++] = close[o - open];
		} else if (c) {
			if (!n || stack[--n] != *c)
				return NULL;
			if (!n)
				return s + 1;
		}
	}
	return NULL;
}

static bool looks_like_go_path(const char *s)
{
	/* A '/' with a word on both sides, before anything that is no part of an import path. */
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~%+");

	return n && s[n] == '/' && continues_word(s[n + 1]);
}

/* The end of a Go import path before its last component. */
static const char *skip_go_path(const char *s)
{
	const char *last = s;

	for (; continues_word(*s) || (*s && strchr(".-~%+/", *s)); s++)
		if (*s == '/')
			last = s + 1;
	return last;
}

/* The end of one component of a qualified name; @s itself where there is none, NULL: unbalanced. */
static const char *skip_component(const char *s)
{
	if (strncmp(s, ANONYMOUS, strlen(ANONYMOUS)) == 0)
		return s + strlen(ANONYMOUS);
	if (*s == '{')
		return locate_skip_balanced(s);
	if (!starts_name(s))
		return s;
	while (continues_word(*s))
		s++;
	if (*s == '<')
		s = locate_skip_balanced(s);
	/* A function as a scope, with or without its parameters: "f()::calls". */
	if (s && *s == '(') {
		const char *end = locate_skip_balanced(s);

		if (end && strncmp(end, " const", 6) == 0)
			end += 6;
		if (end && strncmp(end, "::", 2) == 0)
			s = end;
	}
	return s;
}

static struct wc_error *parse_base(struct parser *p)
{
	const char *start = p->at, *end;

	if (!starts_name(p->at))
		return expected(p, "the name of a variable");
	if (strncmp(p->at, "::", 2) == 0)
		start = p->at += 2;
	if (looks_like_go_path(p->at))
		p->at = skip_go_path(p->at);
	for (;;) {
		end = skip_component(p->at);
		if (!end)
			return expected(p, "a name with balanced brackets");
		if (end == p->at)
			return expected(p, "a name");
		p->at = end;
		if (strncmp(p->at, "::", 2) != 0)
			break;
		p->at += 2;
	}
	p->expr->base = strndup(start, (size_t)(p->at - start));
	return p->expr->base ? NULL : &wc_enomem;
}

static struct wc_error *add_step(struct parser *p, struct locate_step step)
{
	if (vec_push(p->expr->step, p->expr->nsteps, p->expr->step_cap, step))
		return NULL;
	free(step.name);
	free(step.index);
	return &wc_enomem;
}

static struct wc_error *parse_member(struct parser *p, enum locate_op op)
{
	const char *start;
	char *name;

	skip_space(p);
	start = p->at;
	while (continues_word(*p->at))
		p->at++;
	if (p->at == start)
		return expected(p, "the name of a member after '%s'", op == LOCATE_ARROW ? "->" : ".");
	name = strndup(start, (size_t)(p->at - start));
	return name ? add_step(p, (struct locate_step){ .op = op, .name = name }) : &wc_enomem;
}

static struct wc_error *parse_one_index(struct parser *p, char close, int64_t *ret)
{
	char *end;

	skip_space(p);
	errno = 0;
	*ret = strtoll(p->at, &end, 0);
	if (*p->at == ':' || (end > p->at && end[strspn(end, " \t")] == ':'))
		return expected(p, "one element: a section (a:b) cannot be watched, or a number");
	if (end == p->at)
		return expected(p, close == ']' ? "a number inside '[ ]'" : "a number inside '( )'");
	if (errno)
		return expected(p, "a number that fits in 64 bits");
	p->at = end;
	skip_space(p);
	return NULL;
}

/* "[1]", "[1,2]", "(1,2)": behind the bracket that opens it. */
static struct wc_error *parse_index(struct parser *p, char close)
{
	int64_t index[LOCATE_INDICES];
	struct locate_step step = { .op = LOCATE_INDEX, .round = close == ')' };
	struct wc_error *err;

	for (;;) {
		if (step.nindices == LOCATE_INDICES)
			return expected(p, "no more than %d dimensions", LOCATE_INDICES);
		err = parse_one_index(p, close, &index[step.nindices++]);
		if (err)
			return err;
		if (*p->at != ',')
			break;
		p->at++;
	}
	if (*p->at != close)
		return expected(p, "'%c'", close);
	p->at++;
	step.index = malloc(step.nindices * sizeof(*step.index));
	if (!step.index)
		return &wc_enomem;
	memcpy(step.index, index, step.nindices * sizeof(*step.index));
	return add_step(p, step);
}

static struct wc_error *parse_path(struct parser *p);

static struct wc_error *parse_primary(struct parser *p)
{
	struct wc_error *err;

	skip_space(p);
	if (*p->at != '(' || starts_name(p->at))
		return parse_base(p);
	p->at++;
	err = parse_path(p);
	if (err)
		return err;
	skip_space(p);
	if (*p->at != ')')
		return expected(p, "')'");
	p->at++;
	return NULL;
}

static struct wc_error *parse_postfix(struct parser *p)
{
	struct wc_error *err = parse_primary(p);

	while (!err) {
		skip_space(p);
		if (strncmp(p->at, "->", 2) == 0) {
			p->at += 2;
			err = parse_member(p, LOCATE_ARROW);
		} else if (*p->at == '.' || *p->at == '%') {
			p->at++;
			err = parse_member(p, LOCATE_MEMBER);
		} else if (*p->at == '[' || *p->at == '(') {
			err = parse_index(p, *p->at++ == '[' ? ']' : ')');
		} else if (*p->at == '^') {
			p->at++;
			err = add_step(p, (struct locate_step){ .op = LOCATE_DEREF, .behind = true });
		} else {
			break;
		}
	}
	return err;
}

static struct wc_error *parse_path(struct parser *p)
{
	struct wc_error *err;

	skip_space(p);
	if (++p->depth > DEPTH_MAX)
		return expected(p, "fewer nested '*' and '('");
	if (*p->at == '*') {
		p->at++;
		err = parse_path(p);
		if (!err)
			err = add_step(p, (struct locate_step){ .op = LOCATE_DEREF });
	} else {
		err = parse_postfix(p);
	}
	p->depth--;
	return err;
}

static bool is_quote(char c)
{
	return c == '\'' || c == '"';
}

/* Behind the quote that ends the text which the one at @s begins; NULL: there is none. */
static const char *skip_quoted(const char *s)
{
	char quote = *s++;

	for (; *s && *s != quote; s++)
		if (*s == '\\' && s[1])
			s++;
	return *s ? s + 1 : NULL;
}

char *locate_quote_prefix(const char *prefix)
{
	bool plain = !isdigit((unsigned char)*prefix) || strncasecmp(prefix, "0x", 2) != 0;
	char *text = NULL;
	size_t len;
	FILE *f;

	if (plain && !prefix[strcspn(prefix, ":'\"\\ <>(){}[]*&,^%")])
		return strdup(prefix);
	f = open_memstream(&text, &len);
	if (!f)
		return NULL;
	fputc('\'', f);
	for (; *prefix; prefix++)
		fprintf(f, "%s%c", *prefix == '\'' || *prefix == '\\' ? "\\" : "", *prefix);
	fputc('\'', f);
	return fclose(f) == 0 ? text : (free(text), NULL);
}

char *locate_unquote_prefix(const char *at, const char *end)
{
	char *text = malloc((size_t)(end - at) + 1), *to = text;
	bool quoted = is_quote(*at);

	if (!text)
		return NULL;
	while (end > at && isspace((unsigned char)end[-1]))
		end--;
	if (quoted) {
		at++;
		end--;
	}
	while (at < end) {
		if (quoted && *at == '\\' && at + 1 < end)
			at++;
		*to++ = *at++;
	}
	*to = '\0';
	return text;
}

const char *locate_prefix_end(const char *s)
{
	if (is_quote(*s)) {
		s = skip_quoted(s);
		while (s && isspace((unsigned char)*s))
			s++;
		return s && s[0] == ':' && s[1] != ':' ? s : NULL;
	}
	for (; *s; s++) {
		size_t colons = strspn(s, ":");

		if (colons == 1 || colons == 3)
			return s;
		if (*s == '<' || *s == '(' || *s == '{') {
			const char *end = locate_skip_balanced(s);

			if (end)
				s = end - 1;
		} else if (colons) {
			s += colons - 1;
		} else if (*s == '[' || strncmp(s, "->", 2) == 0) {
			return NULL;
		}
	}
	return NULL;
}

struct wc_error *locate_parse_prefixes(const char *text, const char **at, char *prefix[2], size_t *n)
{
	const char *end;

	while (*n < 2 && (end = locate_prefix_end(*at))) {
		char *one = locate_unquote_prefix(*at, end);

		if (!one)
			return &wc_enomem;
		if (!*one) {
			free(one);
			return locate_expected(text, *at, "a source file or a module before ':'");
		}
		prefix[(*n)++] = one;
		*at = end + 1 + strspn(end + 1, " \t\n\v\f\r");
	}
	if (is_quote(**at))
		return locate_expected(text, *at,
				       skip_quoted(*at) ? "':' and a name after what is in quotes, or a name"
							: "another quote for the one");
	return NULL;
}

static struct wc_error *parse_prefixes(struct parser *p)
{
	struct locate_expr *e = p->expr;

	return locate_parse_prefixes(p->text, &p->at, e->prefix, &e->nprefixes);
}

static struct wc_error *parse_number(struct parser *p, const char *what, uint64_t *ret)
{
	char *end;

	skip_space(p);
	errno = 0;
	*ret = strtoull(p->at, &end, 0);
	if (end == p->at || !isdigit((unsigned char)*p->at))
		return expected(p, "%s", what);
	if (errno)
		return expected(p, "a number that fits in 64 bits");
	p->at = end;
	skip_space(p);
	return NULL;
}

static struct wc_error *parse_raw(struct parser *p)
{
	struct wc_error *err = parse_number(p, "an address", &p->expr->addr);

	p->expr->is_raw = true;
	if (err || *p->at != ':')
		return err;
	p->at++;
	return parse_number(p, "a size in bytes after ':'", &p->expr->size);
}

struct wc_error *locate_parse(const char *text, struct locate_expr *ret)
{
	scoped(locate_expr_deinit) struct locate_expr e = { 0 };
	struct parser p = { text, text, &e, 0 };
	struct wc_error *err;

	skip_space(&p);
	if (p.at[0] == '0' && (p.at[1] == 'x' || p.at[1] == 'X')) {
		err = parse_raw(&p);
	} else {
		err = parse_prefixes(&p);
		if (!err)
			err = parse_path(&p);
	}
	if (err)
		return err;
	skip_space(&p);
	if (*p.at)
		return expected(&p, e.is_raw ? "':' and a size, or nothing more,"
					     : "'.', '->', '[', '(' or the end");
	*ret = e;
	e = (struct locate_expr){ 0 };
	return NULL;
}

void locate_expr_deinit(struct locate_expr *e)
{
	for (size_t i = 0; i < e->nsteps; i++) {
		free(e->step[i].name);
		free(e->step[i].index);
	}
	free(e->step);
	free(e->prefix[0]);
	free(e->prefix[1]);
	free(e->base);
	*e = (struct locate_expr){ 0 };
}
