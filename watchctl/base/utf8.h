/* utf8 - text from a foreign process may be anything; what we print is UTF-8 without control characters. */
#ifndef WATCHCTL_BASE_UTF8_H
#define WATCHCTL_BASE_UTF8_H

#include <stddef.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* The length of the well-formed character at @s (NUL-terminated); 0: not one. */
size_t utf8_len(const char *s);

/*
 * Copies @s to @buf, fit for a terminal: control characters (C0, DEL, C1) and bytes that are not
 * UTF-8 become '?'. Cut at a character's border to @cap, NUL-terminated. Returns @buf.
 */
char *utf8_clean(const char *s, char *buf, size_t cap);

/* The same in place, for what may have several lines: their ends stay. */
void utf8_clean_lines(char *s);

/* How many columns the clean text @s takes, one a character. */
size_t utf8_columns(const char *s);

#endif
