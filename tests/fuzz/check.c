#include "tests/fuzz/check.h"

#include <ctype.h>

#include "tests/fuzz/fuzz.h"
#include "watchctl/base/utf8.h"

static void check_characters(const char *text, size_t len, const char *controls)
{
	const char *end = text + len;

	require(!*end); /* a stream in memory adds that */
	while (text < end) {
		size_t n = utf8_len(text);
		unsigned char c = (unsigned char)*text;

		require(n && n <= (size_t)(end - text));
		require(n > 1 || strchr(controls, c) || (c >= 0x20 && c != 0x7f));
		require(n != 2 || c != 0xc2 || (unsigned char)text[1] >= 0xa0);
		text += n;
	}
}

void check_text(const char *text, size_t len)
{
	check_characters(text, len, "\n");
}

void check_columns(const char *text, size_t len)
{
	check_characters(text, len, "\n\t");
}

/* RFC 8259. Each takes what it is named for, and blanks behind it. */

static const char *value(const char *p, unsigned int depth);

static const char *blanks(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

static const char *string(const char *p)
{
	require(*p++ == '"');
	for (; *p != '"'; p++) {
		require((unsigned char)*p >= 0x20);
		if (*p != '\\')
			continue;
		p++;
		require(*p && strchr("\"\\/bfnrtu", *p));
		for (int i = 0; *p == 'u' && i < 4; i++)
			require(isxdigit((unsigned char)p[i + 1]));
	}
	return blanks(p + 1);
}

static const char *number(const char *p)
{
	const char *start;

	p += *p == '-';
	require(isdigit((unsigned char)*p));
	require(*p != '0' || !isdigit((unsigned char)p[1]));
	while (isdigit((unsigned char)*p))
		p++;
	if (*p == '.')
		for (start = ++p; isdigit((unsigned char)*p) || (require(p > start), false);)
			p++;
	if (*p == 'e' || *p == 'E') {
		p += 1 + (p[1] == '+' || p[1] == '-');
		require(isdigit((unsigned char)*p));
		while (isdigit((unsigned char)*p))
			p++;
	}
	return blanks(p);
}

static const char *members(const char *p, char closing, unsigned int depth)
{
	p = blanks(p + 1);
	if (*p == closing)
		return blanks(p + 1);
	for (;;) {
		if (closing == '}') {
			p = string(p);
			require(*p == ':');
			p = blanks(p + 1);
		}
		p = value(p, depth + 1);
		if (*p == closing)
			return blanks(p + 1);
		require(*p == ',');
		p = blanks(p + 1);
	}
}

static const char *value(const char *p, unsigned int depth)
{
	static const char *const words[] = { "true", "false", "null" };

	require(depth < 100);
	if (*p == '{' || *p == '[')
		return members(p, *p == '{' ? '}' : ']', depth);
	if (*p == '"')
		return string(p);
	for (size_t i = 0; i < 3; i++)
		if (!strncmp(p, words[i], strlen(words[i])))
			return blanks(p + strlen(words[i]));
	return number(p);
}

void check_json(const char *text, size_t len)
{
	check_text(text, len);
	require(value(blanks(text), 0) == text + len);
}

void check_json_lines(const char *text, size_t len)
{
	const char *end = text + len;

	check_text(text, len);
	while (text < end) {
		const char *stop = strchr(text, '\n');

		require(stop && *text == '{');
		require(value(text, 0) > stop);
		text = stop + 1;
	}
}

static bool is_word(const char *const *words, const char *p, size_t n)
{
	for (; *words; words++)
		if (strlen(*words) == n && !strncmp(*words, p, n))
			return true;
	return false;
}

/* name, name=word, name="text"; none that runs or fetches anything. */
static const char *attribute(const char *p)
{
	size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz-");

	require(n && strncmp(p, "on", 2) != 0 && strncmp(p, "src", 3) != 0);
	p += n;
	if (*p != '=')
		return p;
	if (*++p == '"') {
		p = strchr(p + 1, '"');
		require(p);
		return p + 1;
	}
	n = strcspn(p, " >\n");
	require(n);
	return p + n;
}

void check_html(const char *text, size_t len)
{
	static const char *const tags[] = {
		"html",	    "head",   "body",	  "meta",  "title",   "style",	 "script", "h1",       "h2",
		"h3",	    "p",      "b",	  "br",	   "code",    "pre",	 "table",  "tr",       "td",
		"th",	    "div",    "span",	  "small", "details", "summary", "header", "main",     "nav",
		"section",  "input",  "button",	  "label", "select",  "option",	 "canvas", "svg",      "ul",
		"fieldset", "legend", "li",	  "thead", "tbody",   "a",	 "footer", "noscript", "kbd",
		"dialog",   "form",   "datalist", NULL
	};
	const char *p = text;

	check_columns(text, len);
	while ((p = strchr(p, '<'))) {
		size_t n;

		p++;
		if (*p == '!') {
			p = strchr(p, '>');
			require(p);
			continue;
		}
		p += *p == '/';
		n = strcspn(p, " >\n");
		require(is_word(tags, p, n));
		/* What is ours in there has signs of its own. */
		if (!strncmp(p - 1, "<style>", 7) || !strncmp(p - 1, "<script>", 8)) {
			p = strstr(p, p[1] == 't' ? "</style>" : "</script>");
			require(p);
			continue;
		}
		for (p += n; *p != '>'; p = attribute(p))
			p += strspn(p, " \n");
	}
}

void check_csv(const char *text, size_t len)
{
	size_t fields = 1, first = 0;
	bool quoted = false;

	check_characters(text, len, "\r\n");
	for (const char *p = text; *p; p++) {
		if (*p == '"')
			quoted = !quoted;
		else if (!quoted && *p == ',')
			fields++;
		else if (!quoted && *p == '\n') {
			require(!first || fields == first);
			first = fields;
			fields = 1;
		}
	}
	require(!quoted);
}
