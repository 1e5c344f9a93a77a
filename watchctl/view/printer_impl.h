/* printer_impl - what the two printers and their table share. */
#ifndef WATCHCTL_VIEW_PRINTER_IMPL_H
#define WATCHCTL_VIEW_PRINTER_IMPL_H

#include "watchctl/view/json.h"
#include "watchctl/view/printer.h"

#define CELL_TEXT 512

/* Columns of an access line that grow with what has been seen, up to a bound. */
enum column { COLUMN_WHO, COLUMN_WATCH, COLUMN_VALUE, COLUMN_PLACE, COLUMN_SOURCE, COLUMNS };

struct printer {
	const struct view_ops *ops;
	FILE *out;
	struct print_options opt;
	struct json json;

	size_t width[COLUMNS];
	uint64_t second; /* whose text is in clock */
	char clock[16];
	bool ended;  /* the blank line before the ending has been printed */
	bool folded; /* an access did not fit one line of the terminal: from then on, all take two */
};

const char *printer_reg_name(enum reg r);

enum style {
	STYLE_DIM,
	STYLE_WATCH,
	STYLE_READ,
	STYLE_WRITE,
	STYLE_UPDATE,
	STYLE_PLACE,
	STYLE_ALERT,
	STYLES
};

/* Prints @text in @style, then spaces up to @width columns. */
void text_cell(struct printer *p, enum style style, const char *text, size_t width);

const char *text_kind(enum access_kind kind);
enum style text_kind_style(enum access_kind kind);

/* "set_flag+26", "libfoo.so+0x1234", "0x7f..". */
void text_place(const char *module, uint64_t module_offset, const char *function, uint64_t offset,
		uint64_t ip, char *buf, size_t cap);

/* "app.c:17"; "" when not known. */
void text_source(const char *file, unsigned int line, char *buf, size_t cap);

/* "41 -> 42", "42" for reads, "42 (same)", "?" for what is not known. */
void text_change(enum access_kind kind, const char *old_text, const char *new_text, bool same, char *buf,
		 size_t cap);

/* The time of day, microseconds included. */
void text_time(struct printer *p, struct view_time t, char *buf, size_t cap);

/* True when @columns of text do not fit the terminal, where there is one. */
bool text_overflows(const struct printer *p, size_t columns);

/* A blank line, once, between the accesses and what sums them up. */
void text_begin_ending(struct printer *p);

/* print_text_sites.c */
void print_text_sites(void *ctx, const struct sites *s);

#endif
