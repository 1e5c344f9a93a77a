#include "watchctl/view/words/text_shorten.h"

#include <stdbool.h>
#include <string.h>

#include "watchctl/base/utf8.h"

#define ANONYMOUS "(anonymous namespace)"

static size_t bytes_of(const char *s, size_t columns)
{
	size_t n = 0;

	while (columns-- && s[n])
		n += utf8_len(s + n);
	return n;
}

void text_cut_middle(char *s, size_t columns)
{
	size_t has = utf8_columns(s), head, tail;

	if (columns < 8)
		columns = 8;
	if (has <= columns)
		return;
	head = (columns - 3) * 2 / 3;
	tail = bytes_of(s, has - (columns - 3 - head));
	head = bytes_of(s, head);
	memmove(s + head + 3, s + tail, strlen(s + tail) + 1);
	memset(s + head, '.', 3);
}

/* True if the bracket at @at is part of an operator's name: "operator<<", "operator()", "operator->". */
static bool is_operator(const char *s, const char *at)
{
	static const char word[] = "operator";
	const size_t len = sizeof(word) - 1;
	const char *p;

	for (p = at; p >= s + len && at - p <= 3; p--)
		if (!memcmp(p - len, word, len))
			return at < p + (!strncmp(p, "()", 2) ? 2 : strspn(p, "<>=-*"));
	return false;
}

/* The bracket that closes the one at @at; NULL: it is not closed, or the name is not of that form. */
static const char *closing(const char *s, const char *at, char open, char close)
{
	size_t depth = 0;

	for (; *at; at++) {
		if ((*at != open && *at != close) || is_operator(s, at))
			continue;
		depth += *at == open;
		if (*at == close && --depth == 0)
			return at;
	}
	return NULL;
}

/* "f<int>(char)" -> "f<...>(char)": every outermost pair of @open and @close that holds more than the dots.
 */
static void empty_brackets(char *s, char open, char close)
{
	char *at = s;
	const char *end;

	while ((at = strchr(at, open))) {
		end = is_operator(s, at) || !strncmp(at, ANONYMOUS, strlen(ANONYMOUS))
			      ? NULL
			      : closing(s, at, open, close);
		at++;
		if (!end || end - at <= 3)
			continue;
		memmove(at + 3, end, strlen(end) + 1);
		memset(at, '.', 3);
		at += 4;
	}
}

void text_shorten(char *s, size_t columns)
{
	if (utf8_columns(s) > columns)
		empty_brackets(s, '<', '>');
	if (utf8_columns(s) > columns)
		empty_brackets(s, '(', ')');
	text_cut_middle(s, columns);
}
