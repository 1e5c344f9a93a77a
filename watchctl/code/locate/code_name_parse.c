/*
 * Names of functions hold almost any character ("operator<<", "main.(*Pool).get", "<T as U>::f"), so only the
 * ends are looked at: prefixes in front, an offset behind, and that what lies between has its brackets
 * closed.
 */
#include "watchctl/code/locate/code_name_parse.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/lookup/locate_parse.h"

struct parser {
	const char *text, *at, *end; /* end: behind the last character that is no space */
	struct code_expr *expr;
};

#define expected(p, where, ...) locate_expected((p)->text, where, __VA_ARGS__)

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static struct wc_error *parse_prefixes(struct parser *p)
{
	struct wc_error *err = locate_parse_prefixes(p->text, &p->at, p->expr->prefix, &p->expr->nprefixes);

	return err ? err : locate_check_quote(p->text, p->at);
}

/* All of [at, end) as a number. */
static struct wc_error *parse_number(struct parser *p, const char *at, const char *what, uint64_t *ret)
{
	bool hex = at[0] == '0' && (at[1] == 'x' || at[1] == 'X');
	char *end;

	if (!isdigit((unsigned char)*at))
		return expected(p, at, "%s", what);
	errno = 0;
	*ret = strtoull(at, &end, hex ? 16 : 10);
	if (errno)
		return expected(p, at, "a number that fits in 64 bits");
	if (end != p->end)
		return expected(p, end, "the end of the expression");
	return NULL;
}

static struct wc_error *parse_line(struct parser *p)
{
	uint64_t line = 0;
	struct wc_error *err = parse_number(p, p->at, "a line number", &line);

	if (err)
		return err;
	if (!p->expr->nprefixes)
		return expected(p, p->at,
				"a source file and ':' before a line number, or 0x before an address,");
	if (!line || line > INT32_MAX)
		return expected(p, p->at, "a line number from 1 on");
	p->expr->line = (unsigned int)line;
	return NULL;
}

/* "operator+", "operator++": the plus at @to belongs to the name. */
static bool ends_in_operator(const char *from, const char *to)
{
	if (to > from && to[-1] == '+')
		to--;
	return to - from >= 8 && strncmp(to - 8, "operator", 8) == 0;
}

/* The '+' before an offset; NULL: there is none. */
static const char *find_offset(const struct parser *p)
{
	const char *plus = NULL;

	for (const char *s = p->at; s < p->end; s++) {
		const char *close = strchr("<({[", *s) ? locate_skip_balanced(s) : NULL;

		if (*s == '+')
			plus = s;
		else if (close)
			s = close - 1;
	}
	return plus && !ends_in_operator(p->at, plus) ? plus : NULL;
}

static bool starts_name(const char *s)
{
	unsigned char c = (unsigned char)*s;

	return isalpha(c) || c >= 0x80 || (c && strchr("_$~<({", c));
}

/* A space may stand in "operator new", "f() const" and inside brackets, for instance. */
static bool space_is_fine(const char *from, const char *at, const char *end)
{
	const char *next = at;

	while (next < end && isspace((unsigned char)*next))
		next++;
	if (strncmp(next, "const", 5) == 0 || *next == '[' || *next == '(' || next[-1] == ',')
		return true;
	return memmem(from, (size_t)(at - from), "operator", 8) != NULL;
}

static struct wc_error *check_name(struct parser *p, const char *end)
{
	bool is_operator = memmem(p->at, (size_t)(end - p->at), "operator", 8) != NULL;

	for (const char *s = p->at; s < end; s++) {
		if (!is_operator && strchr("<({[", *s)) {
			const char *close = locate_skip_balanced(s);

			if (!close)
				return expected(p, s, "a name with balanced brackets");
			s = close - 1;
		} else if ((!is_operator && strchr(")}]", *s)) ||
			   (isspace((unsigned char)*s) && !space_is_fine(p->at, s, end))) {
			return expected(p, s, "'+' and an offset, or the end");
		}
	}
	return NULL;
}

static struct wc_error *parse_function(struct parser *p)
{
	const char *plus, *end;
	struct wc_error *err;

	if (strncmp(p->at, "::", 2) == 0)
		p->at += 2;
	if (!starts_name(p->at))
		return expected(p, p->at,
				p->expr->nprefixes ? "the name of a function or a line number"
						   : "the name of a function");
	plus = find_offset(p);
	end = plus ? plus : p->end;
	while (end > p->at && isspace((unsigned char)end[-1]))
		end--;
	err = check_name(p, end);
	if (err)
		return err;
	p->expr->name = strndup(p->at, (size_t)(end - p->at));
	if (!p->expr->name)
		return &wc_enomem;
	if (!plus)
		return NULL;
	p->at = plus + 1;
	skip_space(p);
	p->expr->has_offset = true;
	return parse_number(p, p->at, "an offset in bytes after '+'", &p->expr->offset);
}

struct wc_error *code_name_parse(const char *text, struct code_expr *ret)
{
	scoped(code_expr_deinit) struct code_expr e = { 0 };
	struct parser p = { text, text, text + strlen(text), &e };
	struct wc_error *err;

	while (p.end > text && isspace((unsigned char)p.end[-1]))
		p.end--;
	skip_space(&p);
	if (p.at[0] == '0' && (p.at[1] == 'x' || p.at[1] == 'X')) {
		e.is_raw = true;
		err = parse_number(&p, p.at, "an address", &e.addr);
	} else {
		err = parse_prefixes(&p);
		if (!err)
			err = isdigit((unsigned char)*p.at) ? parse_line(&p) : parse_function(&p);
	}
	if (err)
		return err;
	*ret = e;
	e = (struct code_expr){ 0 };
	return NULL;
}

void code_expr_deinit(struct code_expr *e)
{
	free(e->prefix[0]);
	free(e->prefix[1]);
	free(e->name);
	*e = (struct code_expr){ 0 };
}
