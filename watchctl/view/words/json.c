#include "watchctl/view/words/json.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"

static const char hex_digits[] = "0123456789abcdef";

static void json_put(struct json *j, const char *bytes, size_t n)
{
	if (j->failed || !vec_reserve((void **)&j->text, &j->cap, j->len + n, 1)) {
		j->failed = true;
		return;
	}
	memcpy(j->text + j->len, bytes, n);
	j->len += n;
}

/* Most of what a line is made of, one by one. */
static void put_char(struct json *j, char c)
{
	if (j->len < j->cap && !j->failed)
		j->text[j->len++] = c;
	else
		json_put(j, &c, 1);
}

static void put_escaped(struct json *j, unsigned char c)
{
	static const char plain[] = "\b\t\n\f\r\"\\", name[] = "btnfr\"\\";
	const char *at = c ? strchr(plain, c) : NULL;
	char text[6] = { '\\', 'u', '0', '0', hex_digits[c >> 4], hex_digits[c & 15] };

	if (at) {
		put_char(j, '\\');
		put_char(j, name[at - plain]);
	} else {
		json_put(j, text, sizeof(text));
	}
}

static void put_string(struct json *j, const char *s)
{
	const char *start;
	size_t n;

	put_char(j, '"');
	while (*s) {
		for (start = s;
		     (unsigned char)*s >= 0x20 && (unsigned char)*s < 0x7f && *s != '"' && *s != '\\';)
			s++;
		if (s > start)
			json_put(j, start, s - start);
		if (!*s)
			break;
		if ((unsigned char)*s < 0x80) {
			put_escaped(j, *s++);
			continue;
		}
		n = utf8_len(s);
		json_put(j, n ? s : UTF8_REPLACEMENT, n ? n : strlen(UTF8_REPLACEMENT));
		s += n ? n : 1;
	}
	put_char(j, '"');
}

static void put_name(struct json *j, const char *name)
{
	if (j->comma)
		put_char(j, ',');
	j->comma = true;
	if (!name)
		return;
	put_char(j, '"');
	json_put(j, name, strlen(name));
	json_put(j, "\":", 2);
}

void json_open(struct json *j, const char *name, char bracket)
{
	put_name(j, name);
	put_char(j, bracket);
	j->comma = false;
}

void json_close(struct json *j, char bracket)
{
	put_char(j, bracket);
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
	json_put(j, p, text + sizeof(text) - p);
}

static void put_decimal(struct json *j, uint64_t v)
{
	char text[20], *p = text + sizeof(text);

	do
		*--p = '0' + v % 10;
	while (v /= 10);
	json_put(j, p, text + sizeof(text) - p);
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
		put_char(j, '-');
	put_decimal(j, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void json_bool(struct json *j, const char *name, bool v)
{
	put_name(j, name);
	json_put(j, v ? "true" : "false", v ? 4 : 5);
}

void json_bytes(struct json *j, const char *name, const uint8_t *bytes, size_t n)
{
	size_t i;

	put_name(j, name);
	put_char(j, '"');
	for (i = 0; i < n; i++) {
		put_char(j, hex_digits[bytes[i] >> 4]);
		put_char(j, hex_digits[bytes[i] & 15]);
	}
	put_char(j, '"');
}

bool json_end_line(struct json *j, FILE *out)
{
	bool ok;

	put_char(j, '\n');
	ok = !j->failed;
	if (ok)
		fwrite(j->text, 1, j->len, out);
	j->len = 0;
	j->comma = false;
	j->failed = false;
	return ok;
}

void json_deinit(struct json *j)
{
	free(j->text);
	*j = (struct json){ 0 };
}

void json_text_if(struct json *j, const char *name, const char *text)
{
	if (text && *text)
		json_text(j, name, text);
}
