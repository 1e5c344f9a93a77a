/*
 * check - what every form that a log is printed in must be, whatever names stand in the log: fit for a
 * terminal, valid JSON, a page in which nothing of the log is markup.
 */
#ifndef TESTS_FUZZ_CHECK_H
#define TESTS_FUZZ_CHECK_H

#include <stddef.h>

/* UTF-8 without control characters, but for ends of lines. */
void check_text(const char *text, size_t len);

/* The same, with tabs. */
void check_columns(const char *text, size_t len);

/* One JSON value, or one a line; and check_text(). */
void check_json(const char *text, size_t len);
void check_json_lines(const char *text, size_t len);

/* check_columns(), and all tags are ones that our pages have, with attributes that do nothing. */
void check_html(const char *text, size_t len);

/* Lines as RFC 4180 has them, and every record has as many fields as the first. */
void check_csv(const char *text, size_t len);

#endif
