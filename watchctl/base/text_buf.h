/*
 * text_buf - a text that grows. Its owner embeds it; what it holds is the buffer's until text_buf_deinit(), and moves when
 * something is appended. No memory: what was to be appended is left out whole, and with it all that follows, until
 * text_buf_empty(); @failed says so. Who prints a line asks that first, so that no part of one is printed.
 */
#ifndef WATCHCTL_BASE_TEXT_BUF_H
#define WATCHCTL_BASE_TEXT_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialised is empty. */
struct text_buf {
	char *bytes; /* @len of them, and room for a NUL; NULL: nothing was appended yet */
	size_t len, cap;
	bool failed; /* something is missing at the end */
};

void text_buf_put(struct text_buf *t, const void *bytes, size_t n);
void text_buf_add(struct text_buf *t, const char *s);
void text_buf_printf(struct text_buf *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void text_buf_vprintf(struct text_buf *t, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Hexadecimal digits, with blanks in front up to @width. */
void text_buf_hex(struct text_buf *t, uint64_t v, unsigned int width);

static inline void text_buf_char(struct text_buf *t, char c)
{
	if (t->len + 1 < t->cap && !t->failed)
		t->bytes[t->len++] = c;
	else
		text_buf_put(t, &c, 1);
}

/* Ended by a NUL; valid until something is appended. */
const char *text_buf_text(const struct text_buf *t);

/* Takes the end away: @len bytes are left, of more. */
void text_buf_cut(struct text_buf *t, size_t len);

/* Nothing is left, nothing has failed; the memory is kept. */
void text_buf_empty(struct text_buf *t);

void text_buf_deinit(struct text_buf *t);

#endif
