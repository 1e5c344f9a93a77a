#include "watchctl/view/words/json.h"

#include <string.h>

#include "watchctl/base/utf8.h"

static const char hex_digits[] = "0123456789abcdef";

static void put_escaped(struct json *j, unsigned char c)
{
	static const char plain[] = "\b\t\n\f\r\"\\", name[] = "btnfr\"\\";
	const char *at = c ? strchr(plain, c) : NULL;
	char text[6] = { '\\', 'u', '0', '0', hex_digits[c >> 4], hex_digits[c & 15] };

	if (at) {
		text_buf_char(&j->line, '\\');
		text_buf_char(&j->line, name[at - plain]);
	} else {
		text_buf_put(&j->line, text, sizeof(text));
	}
}

static void put_string(struct json *j, const char *s)
{
	const char *start;
	size_t n;

	text_buf_char(&j->line, '"');
	while (*s) {
		for (start = s;
		     (unsigned char)*s >= 0x20 && (unsigned char)*s < 0x7f && *s != '"' && *s != '\\';)
			s++;
		if (s > start)
			text_buf_put(&j->line, start, s - start);
		if (!*s)
			break;
		if ((unsigned char)*s < 0x80) {
			put_escaped(j, *s++);
			continue;
		}
		n = utf8_len(s);
		text_buf_put(&j->line, n ? s : UTF8_REPLACEMENT, n ? n : strlen(UTF8_REPLACEMENT));
		s += n ? n : 1;
	}
	text_buf_char(&j->line, '"');
}

static void put_name(struct json *j, const char *name)
{
	if (j->comma)
		text_buf_char(&j->line, ',');
	j->comma = true;
	if (!name)
		return;
	text_buf_char(&j->line, '"');
	text_buf_put(&j->line, name, strlen(name));
	text_buf_put(&j->line, "\":", 2);
}

void json_open(struct json *j, const char *name, char bracket)
{
	put_name(j, name);
	text_buf_char(&j->line, bracket);
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	text_buf_char(&j->line, bracket);
	j->comma = true;
}

void json_text(struct json *j, const char *name, const char *text)
{
	put_name(j, name);
	put_string(j, text);
}

void json_hex(struct json *j, const char *name, uint64_t v)
{
	char text[20], *p = text + sizeof(text);

	put_name(j, name);
	*--p = '"';
	do
		*--p = hex_digits[v & 15];
	while (v >>= 4);
	*--p = 'x';
	*--p = '0';
	*--p = '"';
	text_buf_put(&j->line, p, text + sizeof(text) - p);
}

static void put_decimal(struct json *j, uint64_t v)
{
	char text[20], *p = text + sizeof(text);

	do
		*--p = '0' + v % 10;
	while (v /= 10);
	text_buf_put(&j->line, p, text + sizeof(text) - p);
}

void json_number(struct json *j, const char *name, uint64_t v)
{
	put_name(j, name);
	put_decimal(j, v);
}

void json_signed(struct json *j, const char *name, int64_t v)
{
	put_name(j, name);
	if (v < 0)
		text_buf_char(&j->line, '-');
	put_decimal(j, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void json_bool(struct json *j, const char *name, bool v)
{
	put_name(j, name);
	text_buf_put(&j->line, v ? "true" : "false", v ? 4 : 5);
}

void json_bytes(struct json *j, const char *name, const uint8_t *bytes, size_t n)
{
	size_t i;

	put_name(j, name);
	text_buf_char(&j->line, '"');
	for (i = 0; i < n; i++) {
		text_buf_char(&j->line, hex_digits[bytes[i] >> 4]);
		text_buf_char(&j->line, hex_digits[bytes[i] & 15]);
	}
	text_buf_char(&j->line, '"');
}

bool json_end_line(struct json *j, FILE *out)
{
	bool ok;

	text_buf_char(&j->line, '\n');
	ok = !j->line.failed;
	if (ok)
		fwrite(j->line.bytes, 1, j->line.len, out);
	json_empty(j);
	return ok;
}

void json_empty(struct json *j)
{
	text_buf_empty(&j->line);
	j->comma = false;
}

void json_deinit(struct json *j)
{
	text_buf_deinit(&j->line);
	j->comma = false;
}

void json_text_if(struct json *j, const char *name, const char *text)
{
	if (text && *text)
		json_text(j, name, text);
}
