#include "watchctl/view/export/export_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/words/view_words.h"

/* U+2028 and U+2029 end a line for some readers. */
static bool is_control(const char *s, size_t n)
{
	const unsigned char *c = (const unsigned char *)s;

	if (n == 3)
		return c[0] == 0xe2 && c[1] == 0x80 && (c[2] == 0xa8 || c[2] == 0xa9);
	return n == 1 ? c[0] < 0x20 || c[0] == 0x7f : n == 2 && c[0] == 0xc2 && c[1] < 0xa0;
}

size_t export_clean_char(const char **s, char *buf)
{
	size_t n = utf8_len(*s);

	if (!**s)
		return 0;
	if (n && !is_control(*s, n)) {
		memcpy(buf, *s, n);
		*s += n;
		return n;
	}
	*s += n ? n : 1;
	for (n = 0; UTF8_REPLACEMENT[n]; n++)
		buf[n] = UTF8_REPLACEMENT[n];
	return n;
}

void export_text_put(struct export_text *t, const char *bytes, size_t n)
{
	if (t->failed || !vec_reserve((void **)&t->text, &t->cap, t->len + n + 1, 1)) {
		t->failed = true;
		return;
	}
	memcpy(t->text + t->len, bytes, n);
	t->len += n;
	t->text[t->len] = '\0';
}

void export_text_add(struct export_text *t, const char *s)
{
	export_text_put(t, s, strlen(s));
}

void export_text_clean(struct export_text *t, const char *s)
{
	const char *plain = s;
	char buf[8];
	size_t n;

	/* Nearly all of nearly all names. */
	while ((unsigned char)*plain >= 0x20 && (unsigned char)*plain < 0x7f)
		plain++;
	export_text_put(t, s, (size_t)(plain - s));
	while ((n = export_clean_char(&plain, buf)))
		export_text_put(t, buf, n);
}

void export_text_printf(struct export_text *t, const char *fmt, ...)
{
	char buf[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(buf, sizeof(buf), fmt, ap);
	va_end(ap);
	if (n > 0)
		export_text_put(t, buf, (size_t)n < sizeof(buf) ? (size_t)n : sizeof(buf) - 1);
}

void export_text_hex(struct export_text *t, uint64_t v, unsigned int width)
{
	char text[32], *end = text + sizeof(text), *p = end;

	do
		*--p = "0123456789abcdef"[v & 15];
	while (v >>= 4);
	while (p > text && (unsigned int)(end - p) < width)
		*--p = ' ';
	export_text_put(t, p, (size_t)(end - p));
}

void export_text_empty(struct export_text *t)
{
	t->len = 0;
	t->failed = false;
	if (t->text)
		t->text[0] = '\0';
}

void export_text_frame(struct export_text *t, const struct view_frame *f)
{
	if (f->signal) {
		export_text_add(t, "[signal]");
	} else if (f->function && *f->function) {
		export_text_clean(t, f->function);
	} else if (f->module && *f->module) {
		export_text_clean(t, text_base_name(f->module));
		export_text_add(t, "+0x");
		export_text_hex(t, f->module_offset, 0);
	} else {
		export_text_add(t, "0x");
		export_text_hex(t, f->ip, 0);
	}
}

void export_text_stack(struct export_text *t, const struct view_frame *frame, size_t nframes,
		       enum walk_end end)
{
	size_t i;

	for (i = 0; i < nframes; i++) {
		if (i)
			export_text_add(t, " < ");
		export_text_frame(t, &frame[i]);
	}
	if (end != WALK_END_COMPLETE)
		export_text_printf(t, "%s[%s]", nframes ? " < " : "", text_walk_end_name(end));
}

void export_text_args(struct export_text *t, const struct view_value *arg, size_t nargs)
{
	size_t i;

	for (i = 0; i < nargs; i++) {
		if (i)
			export_text_add(t, ", ");
		if (arg[i].name && *arg[i].name) {
			export_text_clean(t, arg[i].name);
			export_text_add(t, " = ");
		}
		export_text_clean(t, arg[i].text ? arg[i].text : "?");
	}
}

void export_text_deinit(struct export_text *t)
{
	free(t->text);
	*t = (struct export_text){ 0 };
}
