/*
 * probe_text - what a probe function has recorded, as a line of text.
 *
 * The text of a probe_log() is put together here, from the format and the arguments in the log. The format may be anything:
 * it is read as printf(3) would, but it decides about nothing but how an argument that is there is shown.
 */
#ifndef WATCHCTL_VIEW_EVENT_PROBE_TEXT_H
#define WATCHCTL_VIEW_EVENT_PROBE_TEXT_H

#include "watchctl/base/text_buf.h"
#include "watchctl/trace/event.h"

/*
 * Appends @e's format with its arguments: conversions d i u x X o c p s %%, flags - + # 0 and blank, width and precision,
 * sizes hh h l ll z j t (the argument is cut to it; int without). Others stand as they are written; of floating-point
 * numbers they stand for an argument all the same. An argument that is missing is "?", a string that could not be read
 * "(unreadable)", and what is withheld "(withheld)".
 */
void probe_text_format(struct text_buf *t, const struct probe_event *e);

/* "0x2a (42)" */
void probe_text_value(struct text_buf *t, uint64_t value);

/* The whole, without the end of its last line: "cas 0x7f..: 0 -> 1"; "value 0x2a (42)"; "tag slow, value 0x2a (42)". */
void probe_text_put(struct text_buf *t, const struct probe_event *e);

/* "jump", "padding", "nop", "pun", "trap", "refused": as `watchctl patch` calls them. */
const char *probe_tactic_name(enum probe_tactic tactic);

/* "before", "after", "in_place" */
const char *probe_when_name(enum probe_when when);

#endif
