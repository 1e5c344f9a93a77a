/*
 * page_shell - what is around the data of a page: the policy in its head, title, style, skeleton and script, which are files
 * of their own (*.html, *.css, *.js), built into the program. What comes from the log stands in blocks of data that a browser
 * never runs; the policy names style and script by their checksums, so that nothing else could run either.
 *
 * A page is written in this order: page_shell_begin(), its title by page_shell_text(), page_shell_body(), the blocks that the
 * script begins with, page_shell_script(), blocks that it reads when the page is whole, page_shell_end(). Errors of @out are
 * left to ferror().
 */
#ifndef WATCHCTL_VIEW_PAGE_PAGE_SHELL_H
#define WATCHCTL_VIEW_PAGE_PAGE_SHELL_H

#include <stdio.h>

#include "watchctl/view/page/page_bytes.h"
#include "watchctl/view/words/json.h"

struct page_shell;

extern const struct page_shell page_shell_watches; /* of accesses and captures */
extern const struct page_shell page_shell_calls;   /* of calls: watchctl/view/callpage/ */
extern const struct page_shell page_shell_flow;	   /* of the system's events: watchctl/cli/flow/page/ */

void page_shell_begin(const struct page_shell *s, FILE *out);
void page_shell_body(const struct page_shell *s, FILE *out);
void page_shell_script(const struct page_shell *s, FILE *out);
void page_shell_end(FILE *out);

/* As text, whatever is in it. */
void page_shell_text(const char *text, FILE *out);

/* Blocks of data, which the script finds by @id. */
void page_shell_json(const char *id, const struct json *j, FILE *out);
void page_shell_bytes(const char *id, const struct page_bytes *b, FILE *out);

/* The bytes of style, skeleton and script together. */
size_t page_shell_size(const struct page_shell *s);

#endif
