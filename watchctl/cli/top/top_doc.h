/* top_doc - lines of text in several styles, longer than the screen: written first, then drawn as far as
 * wanted. */
#ifndef WATCHCTL_CLI_TOP_TOP_DOC_H
#define WATCHCTL_CLI_TOP_TOP_DOC_H

#include <stdbool.h>
#include <stddef.h>

#include "watchctl/base/text_buf.h"
#include "watchctl/cli/top/top_screen.h"

struct top_span;

/* Zero-initialised is empty. */
struct top_doc {
	struct text_buf text;
	struct top_span *span;
	size_t nspans, span_cap;
	size_t *line; /* index of each line's first span */
	size_t nlines, line_cap;
	bool failed; /* memory ran out: the rest is missing */
};

/* Appends to the last line. What is put must be clean text; tabs and newlines are not. */
void top_doc_put(struct top_doc *d, enum top_style style, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Begins a line; the first one too. */
void top_doc_line(struct top_doc *d);

/* Columns that the last line takes so far. */
int top_doc_columns(const struct top_doc *d);

/* Draws the lines from @first on into @rows rows of the screen from @row on. */
void top_doc_draw(const struct top_doc *d, size_t first, int row, int rows, int column, int width);

void top_doc_deinit(struct top_doc *d);

#endif
