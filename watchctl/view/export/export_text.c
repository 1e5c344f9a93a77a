#include "watchctl/view/export/export_text.h"

#include <string.h>

#include "watchctl/base/utf8.h"
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

void export_text_clean(struct text_buf *t, const char *s)
{
	const char *plain = s;
	char buf[8];
	size_t n;

	/* Nearly all of nearly all names. */
	while ((unsigned char)*plain >= 0x20 && (unsigned char)*plain < 0x7f)
		plain++;
	text_buf_put(t, s, (size_t)(plain - s));
	while ((n = export_clean_char(&plain, buf)))
		text_buf_put(t, buf, n);
}

void export_text_frame(struct text_buf *t, const struct view_frame *f)
{
	if (f->signal) {
		text_buf_add(t, "[signal]");
	} else if (f->function && *f->function) {
		export_text_clean(t, f->function);
	} else if (f->module && *f->module) {
		export_text_clean(t, text_base_name(f->module));
		text_buf_add(t, "+0x");
		text_buf_hex(t, f->module_offset, 0);
	} else {
		text_buf_add(t, "0x");
		text_buf_hex(t, f->ip, 0);
	}
}

void export_text_stack(struct text_buf *t, const struct view_frame *frame, size_t nframes, enum walk_end end)
{
	size_t i;

	for (i = 0; i < nframes; i++) {
		if (i)
			text_buf_add(t, " < ");
		export_text_frame(t, &frame[i]);
	}
	if (end != WALK_END_COMPLETE)
		text_buf_printf(t, "%s[%s]", nframes ? " < " : "", text_walk_end_name(end));
}

void export_text_args(struct text_buf *t, const struct view_value *arg, size_t nargs)
{
	size_t i;

	for (i = 0; i < nargs; i++) {
		if (i)
			text_buf_add(t, ", ");
		if (arg[i].name && *arg[i].name) {
			export_text_clean(t, arg[i].name);
			text_buf_add(t, " = ");
		}
		export_text_clean(t, arg[i].text ? arg[i].text : "?");
	}
}

const char *export_text_lost(const struct view_watch *w, const struct lost_event *l)
{
	if (w)
		return w->e.name;
	return l->watch == WATCH_CAPTURES ? "captures" : l->watch == WATCH_PROBES ? "probes" : "events";
}
