#include "watchctl/base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/utf8.h"

struct wc_error wc_enomem = {
	.kind = WC_EFAIL,
	.sys_errno = 12,
	.text = (char *)"out of memory",
};

static struct wc_error *make(enum wc_kind kind, int sys_errno, const char *fmt, va_list ap)
{
	struct wc_error *err = calloc(1, sizeof(*err));

	if (!err)
		return &wc_enomem;
	err->kind = kind;
	err->sys_errno = sys_errno;
	if (vasprintf(&err->text, fmt, ap) < 0) {
		free(err);
		return &wc_enomem;
	}
	utf8_clean_lines(err->text);
	return err;
}

/* Replaces the text of @err by "@a@sep@b@end", where @err's text is @a or @b. Frees what it replaces. */
static struct wc_error *rewrite(struct wc_error *err, const char *a, const char *sep, const char *b,
				const char *end)
{
	char *text;

	if (err == &wc_enomem)
		return err;
	if (asprintf(&text, "%s%s%s%s", a, sep, b, end) < 0) {
		wc_error_free(err);
		return &wc_enomem;
	}
	free(err->text);
	utf8_clean_lines(text);
	err->text = text;
	return err;
}

struct wc_error *wc_error_new(enum wc_kind kind, const char *fmt, ...)
{
	struct wc_error *err;
	va_list ap;

	va_start(ap, fmt);
	err = make(kind, 0, fmt, ap);
	va_end(ap);
	return err;
}

struct wc_error *wc_error_errno(enum wc_kind kind, int sys_errno, const char *fmt, ...)
{
	struct wc_error *err;
	va_list ap;

	va_start(ap, fmt);
	err = make(kind, sys_errno, fmt, ap);
	va_end(ap);
	return rewrite(err, err->text, ": ", strerror(sys_errno), "");
}

struct wc_error *wc_error_context(struct wc_error *err, const char *fmt, ...)
{
	char *context;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&context, fmt, ap);
	va_end(ap);
	if (n < 0)
		return err;
	err = rewrite(err, context, ": ", err->text, "");
	free(context);
	return err;
}

struct wc_error *wc_error_hint(struct wc_error *err, const char *fmt, ...)
{
	char *hint;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&hint, fmt, ap);
	va_end(ap);
	if (n < 0)
		return err;
	err = rewrite(err, err->text, " (", hint, ")");
	free(hint);
	return err;
}

struct wc_error *wc_error_first(struct wc_error *first, struct wc_error *later)
{
	if (!first)
		return later;
	wc_error_free(later);
	return first;
}

void wc_error_free(struct wc_error *err)
{
	if (!err || err == &wc_enomem)
		return;
	free(err->text);
	free(err);
}
