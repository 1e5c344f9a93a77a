#include <assert.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/view_words.h"

/* Returns how many columns fit the terminal. */
static int text_table_measure(const struct printer *p, const struct text_table *t,
			      size_t width[TABLE_COLUMNS])
{
	size_t i, n, end = 0;
	char text[CELL_TEXT];
	int c;

	for (c = 0; c < t->ncolumns; c++) {
		width[c] = strlen(t->column[c].title);
		for (i = 0; i < t->nrows; i++) {
			t->cell(t->rows, i, c, text, sizeof(text));
			n = utf8_columns(text);
			if (t->column[c].max && n > t->column[c].max)
				n = t->column[c].max;
			if (n > width[c])
				width[c] = n;
		}
		end += width[c];
		if (c >= t->always && text_overflows(p, end))
			return c;
		end += 2;
	}
	return t->ncolumns;
}

/* Blanks that only fill a column are owed until something follows: no line ends in them. */
static void print_cell(struct printer *p, const struct text_column *c, enum style style, const char *text,
		       size_t width, size_t *owed)
{
	size_t n = utf8_columns(text), fill = n < width ? width - n : 0;

	if (n) {
		fprintf(p->out, "%*s", (int)(*owed + (c->right ? fill : 0)), "");
		text_cell(p, style, text, 0);
		*owed = c->right ? 2 : fill + 2;
	} else {
		*owed += width + 2;
	}
}

void text_table(struct printer *p, const struct text_table *t)
{
	size_t width[TABLE_COLUMNS], owed = 0, i;
	char text[CELL_TEXT];
	int c, n;

	assert(t->ncolumns <= TABLE_COLUMNS);
	n = text_table_measure(p, t, width);
	for (c = 0; c < n; c++)
		print_cell(p, &t->column[c], STYLE_DIM, t->column[c].title, width[c], &owed);
	fputc('\n', p->out);
	for (i = 0; i < t->nrows; i++) {
		owed = 0;
		for (c = 0; c < n; c++) {
			t->cell(t->rows, i, c, text, sizeof(text));
			print_cell(p, &t->column[c], t->style ? t->style(t->rows, i, c) : t->column[c].style,
				   text, width[c], &owed);
		}
		fputc('\n', p->out);
	}
}
