/*
 * A recursive-descent parser. Two things need care. A single ':' ends a prefix while "::" is part of a
 * name, so prefixes are split off before the rest is read. And names are wider than C identifiers:
 * templates ("box<int, 3>::count"), "(anonymous namespace)", Rust's "{impl#0}", and Go's import paths
 * ("example.com/my-app/db.Pool", where only what follows the last '/' may be members).
 */
#include "stackwalk/locate_parse.h"

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
	return name ? add_step(p, (struct locate_step){ op, name, 0 }) : &wc_enomem;
}

static struct wc_error *parse_index(struct parser *p)
{
	struct locate_step step = { .op = LOCATE_INDEX };
	char *end;

	skip_space(p);
	errno = 0;
	step.index = strtoll(p->at, &end, 0);
	if (end == p->at)
		return expected(p, "a number inside '[ ]'");
	if (errno)
		return expected(p, "a number that fits in 64 bits");
	p->at = end;
	skip_space(p);
	if (*p->at != ']')
		return expected(p, "']'");
	p->at++;
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
		} else if (*p->at == '.') {
			p->at++;
			err = parse_member(p, LOCATE_MEMBER);
		} else if (*p->at == '[') {
			p->at++;
			err = parse_index(p);
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

const char *locate_prefix_end(const char *s)
{
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

static struct wc_error *parse_prefixes(struct parser *p)
{
	const char *end;

	while (p->expr->nprefixes < 2 && (end = locate_prefix_end(p->at))) {
		const char *last = end;

		while (last > p->at && isspace((unsigned char)last[-1]))
			last--;
		if (last == p->at)
			return expected(p, "a source file or a module before ':'");
		p->expr->prefix[p->expr->nprefixes] = strndup(p->at, (size_t)(last - p->at));
		if (!p->expr->prefix[p->expr->nprefixes])
			return &wc_enomem;
		p->expr->nprefixes++;
		p->at = end + 1;
		skip_space(p);
	}
	return NULL;
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
		return expected(&p,
				e.is_raw ? "':' and a size, or nothing more," : "'.', '->', '[' or the end");
	*ret = e;
	e = (struct locate_expr){ 0 };
	return NULL;
}

void locate_expr_deinit(struct locate_expr *e)
{
	for (size_t i = 0; i < e->nsteps; i++)
		free(e->step[i].name);
	free(e->step);
	free(e->prefix[0]);
	free(e->prefix[1]);
	free(e->base);
	*e = (struct locate_expr){ 0 };
}
