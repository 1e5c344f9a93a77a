/*
 * export_text - appends to a text names that may be anything. Control characters and bytes that are
 * not UTF-8 become U+FFFD; what else a format cannot have is its own business.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_TEXT_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_TEXT_H

#include "watchctl/base/text_buf.h"
#include "watchctl/view/event/view.h"

/* The next character of *@s, cleaned, to @buf (8 bytes); *@s goes on. Returns its length, 0 at the end. */
size_t export_clean_char(const char **s, char *buf);

void export_text_clean(struct text_buf *t, const char *s);

/*
 * What a frame is called: its function; "[signal]"; without a name, "libfoo.so+0x1234" or its address.
 * Cleaned.
 */
void export_text_frame(struct text_buf *t, const struct view_frame *f);

/* "set_flag < worker < start_thread": the innermost first; why it was cut short, in brackets, at its end. */
void export_text_stack(struct text_buf *t, const struct view_frame *frame, size_t nframes, enum walk_end end);

/* "x = 42, name = \"abc\"" */
void export_text_args(struct text_buf *t, const struct view_value *arg, size_t nargs);

/* Of what events were lost: the name of the watch @w (NULL: not known), "captures", "probes" or "events". */
const char *export_text_lost(const struct view_watch *w, const struct lost_event *l);

#endif
