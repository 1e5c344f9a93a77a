#include "watchctl/code/locate/show_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"

/* Numbers */

static void put_binary(uint64_t raw, unsigned int digits, char *buf, size_t len)
{
	unsigned int n = digits;
	size_t at = 0;

	if (!n)
		n = raw ? 64 - (unsigned int)__builtin_clzll(raw) : 1;
	while (n-- && at + 1 < len)
		buf[at++] = raw >> n & 1 ? '1' : '0';
	buf[at] = '\0';
}

void show_as(const struct show_source *s, enum value_kind kind, unsigned int size, uint64_t raw, char *buf,
	     size_t len)
{
	const struct value_type type = { .kind = kind };
	char symbol[SHOW_TEXT / 2];
	bool named = kind == VALUE_POINTER && raw && s && s->symbolizer &&
		     symbolizer_data_name(s->symbolizer, raw, symbol, sizeof(symbol));

	value_format(&type, size, raw, named ? symbol : NULL, buf, len);
}

/* The character in the low byte, and the whole number. */
static void put_character(uint64_t raw, int64_t n, bool is_signed, char *buf, size_t len)
{
	char one[32];

	show_as(NULL, VALUE_CHAR, 1, raw & 0xff, one, sizeof(one));
	*strrchr(one, '(') = '\0';
	if (is_signed)
		snprintf(buf, len, "%s(%" PRId64 ")", one, n);
	else
		snprintf(buf, len, "%s(%" PRIu64 ")", one, raw);
}

/* @raw has @size bytes. Signed numbers are so also where they are shown as characters, addresses and
 * fractions. */
void show_put_number(const struct show_source *s, char format, unsigned int size, bool is_signed,
		     uint64_t raw, bool padded, char *buf, size_t len)
{
	int64_t n = show_sign_extend(raw, size * 8);

	switch (format) {
	case 'd':
		snprintf(buf, len, "%" PRId64, n);
		return;
	case 'u':
		snprintf(buf, len, "%" PRIu64, raw);
		return;
	case 'o':
		snprintf(buf, len,
			 padded ? "0%0*" PRIo64
			 : raw	? "0%*" PRIo64
				: "%*" PRIo64,
			 padded ? (int)(size * 8 + 2) / 3 : 0, raw);
		return;
	case 't':
		put_binary(raw, padded ? size * 8 : 0, buf, len);
		return;
	case 'a':
		show_as(s, VALUE_POINTER, 8, is_signed ? (uint64_t)n : raw, buf, len);
		return;
	case 'c':
		put_character(raw, n, is_signed, buf, len);
		return;
	case 'f':
		show_as(s,
			size == 4 || size == 8 ? VALUE_FLOAT
			: is_signed	       ? VALUE_SIGNED
					       : VALUE_UNSIGNED,
			size, raw, buf, len);
		return;
	default:
		snprintf(buf, len, padded ? "0x%0*" PRIx64 : "0x%*" PRIx64, padded ? (int)size * 2 : 0, raw);
		return;
	}
}

void show_number(const struct show_source *s, char format, unsigned int size, uint64_t raw, bool padded,
		 char *buf, size_t len)
{
	show_put_number(s, format, size, true, raw, padded, buf, len);
}

/* Strings */

static void put_escaped(FILE *f, unsigned char c, unsigned char next)
{
	static const char escapes[] = "\aa\bb\tt\nn\vv\ff\rr\033e\\\\\"\"";

	for (size_t i = 0; i + 1 < sizeof(escapes); i += 2) {
		if (c == (unsigned char)escapes[i]) {
			fprintf(f, "\\%c", escapes[i + 1]);
			return;
		}
	}
	if (c >= 0x20 && c < 0x7f)
		fputc(c, f);
	else
		fprintf(f, c || (next >= '0' && next <= '7') ? "\\%03o" : "\\0", c);
}

/* The length of the UTF-8 sequence at @s, of at most @len bytes, if it is a printable character; else 0. */
static size_t utf8_length(const unsigned char *s, size_t len)
{
	size_t n = s[0] >= 0xc2 && s[0] < 0xe0	 ? 2
		   : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
		   : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
						 : 0;
	uint32_t c = n ? s[0] & (0xff >> (n + 1)) : 0;

	if (!n || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	/* Controls, surrogates, overlong forms, and what turns the line around. */
	if (c < 0xa0 || (c >= 0xd800 && c < 0xe000) || (n == 3 && c < 0x800) || (n == 4 && c < 0x10000) ||
	    c > 0x10ffff || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	    (c >= 0x2060 && c <= 0x206f) || c == 0xfeff)
		return 0;
	return n;
}

char *show_quote(const unsigned char *s, size_t len, bool more)
{
	char *out = NULL;
	size_t size;
	FILE *f = open_memstream(&out, &size);

	if (!f)
		return NULL;
	fputc('"', f);
	for (size_t i = 0; i < len; i++) {
		size_t n = utf8_length(s + i, len - i);

		if (n) {
			fwrite(s + i, 1, n, f);
			i += n - 1;
		} else {
			put_escaped(f, s[i], i + 1 < len ? s[i + 1] : 0);
		}
	}
	fputs(more ? "\"..." : "\"", f);
	return fclose(f) ? (free(out), NULL) : out;
}

/* What can be read of @len bytes: a piece may reach into a page that is not there. */
static size_t read_some(const struct memory_view *mem, uint64_t addr, unsigned char *buf, size_t len)
{
	size_t whole = 4096 - addr % 4096;

	if (memory_read(mem, addr, buf, len))
		return len;
	return whole < len && memory_read(mem, addr, buf, whole) ? whole : 0;
}

char *show_string(const struct memory_view *mem, uint64_t addr, size_t most, size_t *len)
{
	scoped(freep) unsigned char *buf = malloc(most + 1);
	size_t n = buf ? read_some(mem, addr, buf, most + 1) : 0, end;

	if (!n)
		return NULL;
	end = strnlen((char *)buf, n);
	*len = end < n ? end + 1 : end;
	return show_quote(buf, end > most ? most : end, end == n);
}
