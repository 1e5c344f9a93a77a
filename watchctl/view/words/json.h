/*
 * json - one JSON object a line, built in memory and written with one call. Names are given by
 * us and plain; texts come from anywhere: control characters are escaped, bytes that are not UTF-8
 * become U+FFFD.
 */
#ifndef WATCHCTL_VIEW_WORDS_JSON_H
#define WATCHCTL_VIEW_WORDS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "watchctl/base/text_buf.h"

/* Zero-initialised is an empty line. */
struct json {
	struct text_buf line; /* when it has failed, it is dropped */
	bool comma;	      /* needed before the next member */
};

/* @name is NULL for an element of an array, and for the line's own object. */
void json_open(struct json *j, const char *name, char bracket); /* '{' or '[' */
void json_close(struct json *j, char bracket);			/* '}' or ']' */
void json_text(struct json *j, const char *name, const char *text);
void json_hex(struct json *j, const char *name, uint64_t v); /* "0x2a" */
void json_number(struct json *j, const char *name, uint64_t v);
void json_signed(struct json *j, const char *name, int64_t v);
void json_bool(struct json *j, const char *name, bool v);
void json_bytes(struct json *j, const char *name, const uint8_t *bytes, size_t n); /* "dead00ef" */

/* Writes the line and empties it. False: no memory for it; write errors are left to ferror(). */
bool json_end_line(struct json *j, FILE *out);

/* Begins the line again. */
void json_empty(struct json *j);

void json_deinit(struct json *j);

/* json_text(), absent when @text is NULL or empty. */
void json_text_if(struct json *j, const char *name, const char *text);

#endif
