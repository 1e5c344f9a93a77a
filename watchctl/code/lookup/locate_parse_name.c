/*
 * Names in an expression. They are wider than C identifiers: templates ("box<int, 3>::count"),
 * "(anonymous namespace)", Rust's "{impl#0}", Fortran's submodules ("shapes.impl::calls"), and Go's import paths ("example.com/my-app/db.Pool", where only
 * what follows the last '/' may be members).
 */
#include <ctype.h>
#include <string.h>

#include "watchctl/code/lookup/locate_parser.h"

#define ANONYMOUS "(anonymous namespace)"

void parser_skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

bool parser_starts_name(const char *s)
{
	unsigned char c = (unsigned char)*s;

	return isalpha(c) || c == '_' || c == '$' || c >= 0x80 || c == '{' || strncmp(s, "::", 2) == 0 ||
	       strncmp(s, ANONYMOUS, strlen(ANONYMOUS)) == 0;
}

bool parser_continues_word(char ch)
{
	unsigned char c = (unsigned char)ch;

	return isalnum(c) || c == '_' || c == '$' || c >= 0x80;
}

static bool looks_like_go_path(const char *s)
{
	/* A '/' with a word on both sides, before anything that is no part of an import path. */
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~%+");

	return n && s[n] == '/' && parser_continues_word(s[n + 1]);
}

/* The end of a Go import path before its last component. */
static const char *skip_go_path(const char *s)
{
	const char *last = s;

	for (; parser_continues_word(*s) || (*s && strchr(".-~%+/", *s)); s++)
		if (*s == '/')
			last = s + 1;
	return last;
}

/* Behind ".impl" of "shapes.impl::calls", a submodule of Fortran: no member is a scope. @s: there is none. */
static const char *skip_submodule(const char *s)
{
	const char *end = s;

	if (*s != '.')
		return s;
	for (end++; parser_continues_word(*end); end++)
		;
	return end > s + 1 && strncmp(end, "::", 2) == 0 ? end : s;
}

/* The end of one component of a qualified name; @s itself where there is none, NULL: unbalanced. */
static const char *skip_component(const char *s)
{
	if (strncmp(s, ANONYMOUS, strlen(ANONYMOUS)) == 0)
		return s + strlen(ANONYMOUS);
	if (*s == '{')
		return locate_skip_balanced(s);
	if (!parser_starts_name(s))
		return s;
	while (parser_continues_word(*s))
		s++;
	s = skip_submodule(s);
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

/* Goes behind a qualified name. */
struct wc_error *parser_take_name(struct parser *p)
{
	const char *end;

	/* Inside of an index '/' divides. */
	if (!p->inner && looks_like_go_path(p->at))
		p->at = skip_go_path(p->at);
	for (;;) {
		end = skip_component(p->at);
		if (!end)
			return expected(p, "a name with balanced brackets");
		if (end == p->at)
			return expected(p, "a name");
		p->at = end;
		if (strncmp(p->at, "::", 2) != 0)
			return NULL;
		p->at += 2;
	}
}
