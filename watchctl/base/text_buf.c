#include "watchctl/base/text_buf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

/* Room for @n bytes and a NUL behind what is there. */
static bool has_room(struct text_buf *t, size_t n)
{
	if (!t->failed && !vec_reserve((void **)&t->bytes, &t->cap, t->len + n + 1, 1))
		t->failed = true;
	return !t->failed;
}

void text_buf_put(struct text_buf *t, const void *bytes, size_t n)
{
	if (!has_room(t, n))
		return;
	memcpy(t->bytes + t->len, bytes, n);
	t->len += n;
}

void text_buf_add(struct text_buf *t, const char *s)
{
	text_buf_put(t, s, strlen(s));
}

void text_buf_vprintf(struct text_buf *t, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, ap);
	if (n > 0 && has_room(t, (size_t)n))
		t->len += (size_t)vsnprintf(t->bytes + t->len, (size_t)n + 1, fmt, again);
	va_end(again);
}

void text_buf_printf(struct text_buf *t, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_buf_vprintf(t, fmt, ap);
	va_end(ap);
}

void text_buf_hex(struct text_buf *t, uint64_t v, unsigned int width)
{
	char text[32], *end = text + sizeof(text), *p = end;

	do
		*--p = "0123456789abcdef"[v & 15];
	while (v >>= 4);
	while (p > text && (unsigned int)(end - p) < width)
		*--p = ' ';
	text_buf_put(t, p, (size_t)(end - p));
}

const char *text_buf_text(const struct text_buf *t)
{
	if (!t->bytes)
		return "";
	t->bytes[t->len] = '\0';
	return t->bytes;
}

void text_buf_cut(struct text_buf *t, size_t len)
{
	assert(len <= t->len);
	t->len = len;
}

void text_buf_empty(struct text_buf *t)
{
	t->len = 0;
	t->failed = false;
}

void text_buf_deinit(struct text_buf *t)
{
	free(t->bytes);
	*t = (struct text_buf){ 0 };
}
