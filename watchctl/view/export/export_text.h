/*
 * export_text - a growing text, built of names that may be anything. Control characters and bytes that are
 * not UTF-8 become U+FFFD; what else a format cannot have is its own business.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_TEXT_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_TEXT_H

#include <stdarg.h>

#include "watchctl/view/event/view.h"

/* Zero-initialised is empty. */
struct export_text {
	char *text; /* always ended by NUL, once anything was put */
	size_t len, cap;
	bool failed; /* no memory: it ends somewhere */
};

/* The next character of *@s, cleaned, to @buf (8 bytes); *@s goes on. Returns its length, 0 at the end. */
size_t export_clean_char(const char **s, char *buf);

void export_text_put(struct export_text *t, const char *bytes, size_t n);
void export_text_add(struct export_text *t, const char *s); /* as it is */
void export_text_clean(struct export_text *t, const char *s);
void export_text_printf(struct export_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Hexadecimal digits, with blanks in front up to @width. */
void export_text_hex(struct export_text *t, uint64_t v, unsigned int width);
void export_text_empty(struct export_text *t);

/*
 * What a frame is called: its function; "[signal]"; without a name, "libfoo.so+0x1234" or its address.
 * Cleaned.
 */
void export_text_frame(struct export_text *t, const struct view_frame *f);

/* "set_flag < worker < start_thread": the innermost first; why it was cut short, in brackets, at its end. */
void export_text_stack(struct export_text *t, const struct view_frame *frame, size_t nframes,
		       enum walk_end end);

/* "x = 42, name = \"abc\"" */
void export_text_args(struct export_text *t, const struct view_value *arg, size_t nargs);

void export_text_deinit(struct export_text *t);

#endif
