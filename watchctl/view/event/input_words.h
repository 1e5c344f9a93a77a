/* input_words - what came into a program, in words for people and in names for programs. */
#ifndef WATCHCTL_VIEW_EVENT_INPUT_WORDS_H
#define WATCHCTL_VIEW_EVENT_INPUT_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/trace/event.h"

const char *input_kind_name(enum input_kind kind); /* "file", "environment" ... */

/* Most people would read it as text. */
bool input_is_text(const uint8_t *bytes, size_t n);

/* "10/4\n" in quotes, escaped as in C, or "1f 8b 08"; what does not fit is "...". */
void input_bytes_text(const uint8_t *bytes, size_t n, bool as_text, char *buf, size_t cap);

/* "read of /tmp/in at 0: 5 bytes, "10/4\n"", a clean text. */
void input_text(const struct input_event *e, char *buf, size_t cap);

#endif
