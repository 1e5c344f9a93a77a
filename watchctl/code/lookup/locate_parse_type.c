/*
 * Types in an expression: of a cast, and of sizeof. Whether brackets hold a type or a variable is told by the
 * text alone: a '*' at the end, a keyword, or a value right behind the brackets.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/lookup/locate_parser.h"

#define TYPE_LEN (1ul << 20)

static const char *const qualifiers[] = { "const", "volatile", "restrict", "__restrict", "_Atomic", NULL };
static const char *const keywords[] = { "struct", "class", "union",    "enum",	 "unsigned",
					"signed", "const", "volatile", "long",	 "short",
					"int",	  "char",  "float",    "double", "_Bool",
					"bool",	  "void",  "typename", NULL };

static size_t word_length(const char *s)
{
	size_t n = 0;

	while (parser_continues_word(s[n]))
		n++;
	return n;
}

static bool is_word_of(const char *s, size_t n, const char *const *words)
{
	for (; *words; words++)
		if (strlen(*words) == n && strncmp(s, *words, n) == 0)
			return true;
	return false;
}

/* Spaces, and qualifiers, off the end of [start, end). */
static const char *trim(const char *start, const char *end)
{
	for (;;) {
		const char *word;

		while (end > start && isspace((unsigned char)end[-1]))
			end--;
		for (word = end; word > start && parser_continues_word(word[-1]); word--)
			;
		if (word == end || word == start || !is_word_of(word, (size_t)(end - word), qualifiers))
			return end;
		end = word;
	}
}

/* "a::b<c>", or several words: nothing that operates on something. */
static bool is_plain(const char *start, const char *end)
{
	const char *s = start;

	while (s < end &&
	       (parser_continues_word(*s) || *s == ':' || *s == '<' || isspace((unsigned char)*s))) {
		const char *behind = *s == '<' ? locate_skip_balanced(s) : s + 1;

		if (!behind)
			return false;
		s = behind;
	}
	return s == end;
}

static bool has_two_words(const char *start, const char *end)
{
	for (const char *s = start; s + 1 < end; s++)
		if (isspace((unsigned char)*s) && parser_continues_word(s[1]))
			return true;
	return false;
}

static const char *behind_space(const char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	return s;
}

bool parser_is_type(const char *s)
{
	const char *close = locate_skip_balanced(s), *start = behind_space(s + 1), *end, *points;
	bool keyword;

	if (!close || !parser_starts_name(start))
		return false;
	end = trim(start, close - 1);
	if (end > start && (end[-1] == '*' || end[-1] == '&'))
		return true;
	keyword = is_word_of(start, word_length(start), keywords);
	points = strstr(start, "(*");
	return (is_plain(start, end) && (keyword || has_two_words(start, end))) ||
	       (keyword && points && points < end);
}

bool parser_is_cast(const char *s)
{
	const char *close = locate_skip_balanced(s), *start = behind_space(s + 1), *next;

	if (!close || !parser_starts_name(start))
		return false;
	if (parser_is_type(s))
		return true;
	next = behind_space(close);
	return is_plain(start, close - 1) && (isdigit((unsigned char)*next) || locate_is_quote(*next) ||
					      (*next != ':' && *next != '{' && parser_starts_name(next)));
}

/* Copies the @len characters at @start with single spaces, and without qualifiers. NULL: no memory. */
static char *clean_name(const char *start, size_t len)
{
	const char *end = start + len;
	char *name = len < TYPE_LEN ? malloc(len + 1) : NULL, *to = name;

	if (!name)
		return NULL;
	while (start < end) {
		size_t n = word_length(start);

		if (n && (is_word_of(start, n, qualifiers) || (n == 8 && !strncmp(start, "typename", 8)))) {
			start = behind_space(start + n);
		} else if (n) {
			memcpy(to, start, n);
			to += n;
			start += n;
		} else if (!isspace((unsigned char)*start) || (to > name && to[-1] != ' ')) {
			*to++ = isspace((unsigned char)*start) ? ' ' : *start;
			start++;
		} else {
			start++;
		}
	}
	while (to > name && to[-1] == ' ')
		to--;
	*to = '\0';
	return name;
}

struct wc_error *parser_take_type(struct parser *p, struct type_text *ret)
{
	const char *close = locate_skip_balanced(p->at), *start = behind_space(p->at + 1), *end;
	struct type_text t = { 0 };

	if (!close)
		return expected(p, "a type with balanced brackets");
	for (end = trim(start, close - 1); end > start && strchr("*&", end[-1]); end = trim(start, end - 1)) {
		t.stars += end[-1] == '*';
		if (end[-1] == '&' && (t.is_reference || t.stars))
			break;
		t.is_reference |= end[-1] == '&';
	}
	if (end == start || !parser_starts_name(start) || strpbrk(end - 1, "*&") == end - 1) {
		p->at = start;
		return expected(p, "the name of a type, like 'struct conn *'");
	}
	for (const char *s = start; s < end; s++)
		if (*s == '(' && strncmp(s, "(anonymous namespace)", 21) != 0) {
			p->at = s;
			return expected(p, "a type that ends in '*' or '&': write an array as *(T *)p@n");
		}
	t.name = clean_name(start, (size_t)(end - start));
	if (!t.name)
		return &wc_enomem;
	if (!*t.name) {
		free(t.name);
		p->at = start;
		return expected(p, "the name of a type, like 'struct conn *'");
	}
	p->at = close;
	*ret = t;
	return NULL;
}
