/*
 * text_table - cells in colour, and tables of them: every cell is known before the first line, so the columns fit exactly. On a terminal that is
 * too narrow, the last columns are left out.
 */
#ifndef WATCHCTL_VIEW_PRINT_TEXT_TABLE_H
#define WATCHCTL_VIEW_PRINT_TEXT_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct printer;

enum style {
	STYLE_DIM,
	STYLE_WATCH,
	STYLE_READ,
	STYLE_WRITE,
	STYLE_UPDATE,
	STYLE_PLACE,
	STYLE_ALERT,
	STYLE_TAG,
	STYLES
};

/* Prints @text in @style, then spaces up to @width columns. */
void text_cell(struct printer *p, enum style style, const char *text, size_t width);

#define TABLE_COLUMNS 12

struct text_column {
	const char *title;
	bool right;
	size_t max; /* columns of the terminal; 0: no bound */
	enum style style;
};

struct text_table {
	const struct text_column *column;
	int ncolumns;
	int always; /* that many are printed however narrow the terminal is */
	const void *rows;
	size_t nrows;
	void (*cell)(const void *rows, size_t row, int column, char *buf, size_t cap);
	enum style (*style)(const void *rows, size_t row, int column); /* NULL: those of the columns */
};

void text_table(struct printer *p, const struct text_table *t);

#endif
