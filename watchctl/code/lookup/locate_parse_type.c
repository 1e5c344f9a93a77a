/*
 * Types in an expression: of a cast, and of sizeof. Whether brackets hold a type or a variable is told by the
 * text alone: a '*' at the end, a keyword, or a value right behind the brackets. Text in quotes is one name,
 * of a type or of a variable, whatever it contains.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/code/lookup/locate_parser.h"
#include "watchctl/code/symbols/locate_match.h"

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

/* The quote behind "(", "(struct " or "(const "; NULL: there is none. */
static const char *quote_in(const char *s)
{
	s = behind_space(s + 1);
	for (size_t n; (n = word_length(s)) && is_word_of(s, n, keywords);)
		s = behind_space(s + n);
	return locate_is_quote(*s) ? s : NULL;
}

/* Behind the ')' of brackets with a name in quotes, and nothing but what makes a type behind it; NULL: others. */
static const char *close_quoted(const char *quote)
{
	const char *s = locate_skip_quoted(quote);

	while (s && *s != ')') {
		size_t n = word_length(s);

		if (n ? !is_word_of(s, n, qualifiers) : !isspace((unsigned char)*s) && *s != '*' && *s != '&')
			return NULL;
		s += n ? n : 1;
	}
	return s ? s + 1 : NULL;
}

/* Whether it is a type, for which there is a keyword before the name or an operator behind it. */
static bool is_quoted_type(const char *s, const char *quote, const char *close)
{
	const char *end = trim(quote, close - 1);

	return behind_space(s + 1) != quote || end[-1] == '*' || end[-1] == '&';
}

/* Whether what follows the ')' of "(T)" is what is cast: no operator. */
static bool is_value(const char *s)
{
	s = behind_space(s);
	return isdigit((unsigned char)*s) || locate_is_quote(*s) ||
	       (*s != ':' && *s != '{' && parser_starts_name(s));
}

bool parser_is_type(const char *s)
{
	const char *close, *start = behind_space(s + 1), *end, *points, *quote = quote_in(s);
	bool keyword;

	if (quote) {
		close = close_quoted(quote);
		return close && is_quoted_type(s, quote, close);
	}
	close = locate_skip_balanced(s);
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
	const char *close, *start = behind_space(s + 1), *quote = quote_in(s);

	if (parser_is_type(s))
		return true;
	close = quote ? close_quoted(quote) : locate_skip_balanced(s);
	if (!close)
		return false;
	return (quote || (parser_starts_name(start) && is_plain(start, close - 1))) && is_value(close);
}

/*
 * Copies the @len characters at @start with single spaces, and without qualifiers: those of the arguments of a
 * template are part of its name. NULL: no memory.
 */
static char *clean_name(const char *start, size_t len)
{
	const char *end = start + len;
	char *name = len < TYPE_LEN ? malloc(len + 1) : NULL, *to = name;
	int depth = 0;

	if (!name)
		return NULL;
	while (start < end) {
		size_t n = word_length(start);

		depth += *start == '<' ? 1 : *start == '>' ? -1 : 0;
		if (n && !depth &&
		    (is_word_of(start, n, qualifiers) || (n == 8 && !strncmp(start, "typename", 8)))) {
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

/* Takes the '*' and '&', and what qualifies them, off the end of [start, end). */
static const char *take_stars(struct type_text *t, const char *start, const char *end)
{
	for (end = trim(start, end); end > start && strchr("*&", end[-1]); end = trim(start, end - 1)) {
		t->stars += end[-1] == '*';
		if (end[-1] == '&' && (t->is_reference || t->stars))
			break;
		t->is_reference |= end[-1] == '&';
	}
	return end;
}

/* Whether "(@name *)" means that name without quotes: words and templates, nothing that would end it. */
static bool is_typed_plainly(const char *name)
{
	if (!parser_starts_name(name))
		return false;
	while (*name) {
		size_t n = strncmp(name, LOCATE_ANONYMOUS, strlen(LOCATE_ANONYMOUS))
				   ? word_length(name)
				   : strlen(LOCATE_ANONYMOUS);
		const char *behind = n ? name + n : name + 1;

		if (n && is_word_of(name, n, qualifiers))
			return false;
		if (*name == '<' || *name == '{')
			behind = locate_skip_balanced(name);
		else if (!n && *name != ':' && *name != ' ')
			return false;
		if (!behind)
			return false;
		name = behind;
	}
	return true;
}

char *locate_quote_type(const char *name)
{
	const char *start = name;
	char *text = NULL;
	size_t len;
	FILE *f;

	for (size_t n; (n = word_length(start)) && start[n] == ' ' && is_word_of(start, n, keywords);)
		start += n + 1;
	if (is_typed_plainly(start))
		return strdup(name);
	f = open_memstream(&text, &len);
	if (!f)
		return NULL;
	fprintf(f, "%.*s'", (int)(start - name), name);
	for (; *start; start++)
		fprintf(f, "%s%c", *start == '\'' || *start == '\\' ? "\\" : "", *start);
	fputc('\'', f);
	return fclose(f) == 0 ? text : (free(text), NULL);
}

/* "struct " and the name in quotes behind it. NULL: no memory. */
static char *join_quoted(const char *start, const char *quote, const char *end)
{
	scoped(freep) char *keyword = clean_name(start, (size_t)(quote - start));
	scoped(freep) char *name = locate_unquote_prefix(quote, end);
	char *whole;

	if (!keyword || !name ||
	    asprintf(&whole, "%s%s%s", keyword, *keyword ? " " : "",
		     strncmp(name, "::", 2) == 0 ? name + 2 : name) < 0)
		return NULL;
	return whole;
}

/* "('ns::box<int, 3>' *)": as gdb has names that it would read as something else. */
static struct wc_error *take_quoted_type(struct parser *p, const char *quote, struct type_text *ret)
{
	const char *start = behind_space(p->at + 1), *close = close_quoted(quote), *end;
	const char *behind = locate_skip_quoted(quote);
	struct type_text t = { 0 };

	end = close ? take_stars(&t, behind, close - 1) : NULL;
	if (!end || end != behind || behind == quote + 2) {
		p->at = quote;
		return expected(
			p,
			"the name of a type in quotes, with only '*' or '&' behind it, like 'ns::box<int>' *");
	}
	t.name = join_quoted(start, quote, behind);
	if (!t.name)
		return &wc_enomem;
	p->at = close;
	*ret = t;
	return NULL;
}

struct wc_error *parser_take_type(struct parser *p, struct type_text *ret)
{
	const char *close = locate_skip_balanced(p->at), *start = behind_space(p->at + 1), *end;
	const char *quote = quote_in(p->at);
	struct type_text t = { 0 };

	if (quote)
		return take_quoted_type(p, quote, ret);
	if (!close)
		return expected(p, "a type with balanced brackets");
	end = take_stars(&t, start, close - 1);
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
