#include "watchctl/base/utf8.h"

#include <stdint.h>
#include <string.h>

/* RFC 3629: shortest form, no surrogates, up to U+10FFFF. */
size_t utf8_len(const char *s)
{
	const unsigned char *p = (const unsigned char *)s;
	uint32_t code, min;
	size_t n, i;

	if (p[0] < 0x80)
		return p[0] ? 1 : 0;
	if (p[0] >= 0xc2 && p[0] <= 0xdf)
		n = 2, code = p[0] & 0x1f, min = 0x80;
	else if (p[0] >= 0xe0 && p[0] <= 0xef)
		n = 3, code = p[0] & 0x0f, min = 0x800;
	else if (p[0] >= 0xf0 && p[0] <= 0xf4)
		n = 4, code = p[0] & 0x07, min = 0x10000;
	else
		return 0;
	for (i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < min || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return n;
}

/* Of ASCII, nearly all of it. */
static int is_plain(char c)
{
	return c >= 0x20 && c < 0x7f;
}

/* U+2028 and U+2029 end a line for some readers. */
static int is_control(const char *s, size_t n)
{
	unsigned char c = *s;

	if (n == 3)
		return c == 0xe2 && (unsigned char)s[1] == 0x80 && ((unsigned char)s[2] & 0xfe) == 0xa8;
	if (n == 1)
		return c < 0x20 || c == 0x7f;
	return n == 2 && c == 0xc2 && (unsigned char)s[1] < 0xa0;
}

char *utf8_clean(const char *s, char *buf, size_t cap)
{
	size_t used = 0;

	while (*s) {
		size_t n = is_plain(*s) ? 1 : utf8_len(s), skip = n ? n : 1;
		const char *from = is_plain(*s) || (n && !is_control(s, n)) ? s : "?";
		size_t len = from == s ? n : 1;

		if (used + len >= cap)
			break;
		memcpy(buf + used, from, len);
		used += len;
		s += skip;
	}
	if (cap)
		buf[used] = '\0';
	return buf;
}

void utf8_clean_lines(char *s)
{
	while (*s) {
		size_t n = utf8_len(s), skip = n ? n : 1;

		if (*s != '\n' && (!n || is_control(s, n)))
			memset(s, '?', skip);
		s += skip;
	}
}

size_t utf8_columns(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += (*s & 0xc0) != 0x80;
	return n;
}
