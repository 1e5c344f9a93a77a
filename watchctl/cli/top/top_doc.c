#include "watchctl/cli/top/top_doc.h"

#include <stdarg.h>
#include <stdlib.h>

#include "watchctl/base/vec.h"

struct top_span {
	size_t at; /* of a text that ends with a NUL */
	enum top_style style;
};

void top_doc_line(struct top_doc *d)
{
	if (!vec_push(d->line, d->nlines, d->line_cap, d->nspans))
		d->failed = true;
}

void top_doc_put(struct top_doc *d, enum top_style style, const char *fmt, ...)
{
	struct top_span span = { .at = d->text.len, .style = style };
	va_list ap;

	va_start(ap, fmt);
	text_buf_vprintf(&d->text, fmt, ap);
	va_end(ap);
	if (d->text.len == span.at)
		return;
	text_buf_char(&d->text, '\0');
	if (d->text.failed || !vec_push(d->span, d->nspans, d->span_cap, span))
		d->failed = true;
}

static size_t line_end(const struct top_doc *d, size_t line)
{
	return line + 1 < d->nlines ? d->line[line + 1] : d->nspans;
}

int top_doc_columns(const struct top_doc *d)
{
	int n = 0;
	size_t i;

	if (!d->nlines)
		return 0;
	for (i = d->line[d->nlines - 1]; i < d->nspans; i++)
		n += top_screen_columns(d->text.bytes + d->span[i].at);
	return n;
}

void top_doc_draw(const struct top_doc *d, size_t first, int row, int rows, int column, int width)
{
	size_t i, line;

	for (line = first; line < d->nlines && rows-- > 0; line++, row++) {
		int used = 0;

		for (i = d->line[line]; i < line_end(d, line); i++)
			used += top_screen_put(row, column + used, width - used, d->span[i].style,
					       d->text.bytes + d->span[i].at);
	}
}

void top_doc_deinit(struct top_doc *d)
{
	text_buf_deinit(&d->text);
	free(d->span);
	free(d->line);
	*d = (struct top_doc){ 0 };
}
