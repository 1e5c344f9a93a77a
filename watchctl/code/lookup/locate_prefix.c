/*
 * What stands before the name in an expression: a source file, a module, in quotes where it has to be; and
 * what its parsers share.
 */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/code/lookup/locate_parse.h"

#define DEPTH_MAX 64

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

const char *locate_longer_end(const char *path, const char *end)
{
	const char *s = end ? end - 1 : path + strlen(path);

	if (end && end == path)
		return NULL;
	while (s > path && s[-1] != '/')
		s--;
	return s;
}

bool locate_is_quote(char c)
{
	return c == '\'' || c == '"';
}

/* Behind the quote that ends the text which the one at @s begins; NULL: there is none. */
const char *locate_skip_quoted(const char *s)
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
	bool quoted = locate_is_quote(*at);

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

/* "file.c" of "file.c::x": no scope of a language has a dot in its name. */
static bool is_source_file(const char *start, const char *end)
{
	static const char *const endings[] = { "c",   "cc",  "cpp", "cxx", "C",	  "h",	 "hh",	"hpp", "inc",
					       "rs",  "go",  "f",   "f90", "f95", "f03", "f08", "F",   "F90",
					       "adb", "ads", "pas", "pp",  "d",	  "s",	 "S",	"m",   "mm" };
	const char *dot = end;

	while (dot > start && isalnum((unsigned char)dot[-1]))
		dot--;
	if (dot <= start + 1 || dot[-1] != '.')
		return false;
	for (const char *c = start; c < dot; c++)
		if (!isalnum((unsigned char)*c) && !strchr("_.-+/", *c))
			return false;
	for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++)
		if (strlen(endings[i]) == (size_t)(end - dot) &&
		    strncmp(endings[i], dot, (size_t)(end - dot)) == 0)
			return true;
	return false;
}

const char *locate_scope_end(const char *s)
{
	const char *end = s;

	if (locate_is_quote(*s))
		end = locate_prefix_end(s);
	else
		while (isalnum((unsigned char)*end) || (*end && strchr("_.-+/", *end)))
			end++;
	if (!end || strspn(end, ":") < 2 || (!locate_is_quote(*s) && !is_source_file(s, end)))
		return NULL;
	return end;
}

const char *locate_prefix_end(const char *s)
{
	const char *start = s;

	if (locate_is_quote(*s)) {
		s = locate_skip_quoted(s);
		while (s && isspace((unsigned char)*s))
			s++;
		return s && s[0] == ':' ? s : NULL;
	}
	for (; *s; s++) {
		size_t colons = strspn(s, ":");

		if (colons == 1 || colons == 3 || (colons == 2 && is_source_file(start, s)))
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

/* Behind the colons that end a prefix at @end: "file:x", "file::x", and "file:::x", which is "::x" in it. */
static const char *behind_colons(const char *end)
{
	end += strspn(end, ":") == 2 ? 2 : 1;
	return end + strspn(end, " \t\n\v\f\r");
}

struct wc_error *locate_parse_prefix(const char *text, const char **at, const char *end, char *prefix[2],
				     size_t *n)
{
	char *one = locate_unquote_prefix(*at, end);

	if (!one)
		return &wc_enomem;
	if (!*one) {
		free(one);
		return locate_expected(text, *at, "a source file or a module before ':'");
	}
	prefix[(*n)++] = one;
	*at = behind_colons(end);
	return NULL;
}

struct wc_error *locate_parse_prefixes(const char *text, const char **at, char *prefix[2], size_t *n)
{
	struct wc_error *err = NULL;
	const char *end;

	while (!err && *n < 2 && (end = locate_prefix_end(*at)))
		err = locate_parse_prefix(text, at, end, prefix, n);
	return err;
}

struct wc_error *locate_check_quote(const char *text, const char *at)
{
	if (!locate_is_quote(*at))
		return NULL;
	return locate_expected(text, at,
			       locate_skip_quoted(at) ? "':' and a name after what is in quotes, or a name"
						      : "another quote for the one");
}
