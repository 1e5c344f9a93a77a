/* The table by tag. */
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/tag_totals.h"

#define ROWS_MAX 100 /* tags may be numbers of orders: who wants all has the JSON form */

#define PLACE_MAX 48

enum {
	CELL_COUNT,
	CELL_TAG,
	CELL_PLACE,
	CELL_SOURCE,
	CELL_THREADS,
	CELL_RATE,
	CELL_MIN,
	CELL_MEDIAN,
	CELL_MAX,
	CELLS
};

static const struct text_column columns[CELLS] = {
	[CELL_COUNT] = { "COUNT", true, 20, STYLE_WATCH },
	[CELL_TAG] = { "TAG", false, 48, STYLE_TAG },
	[CELL_PLACE] = { "MOSTLY AT", false, PLACE_MAX + 8, STYLE_PLACE },
	[CELL_SOURCE] = { "SOURCE", false, 32, STYLE_DIM },
	[CELL_THREADS] = { "THREADS", true, 8, STYLE_DIM },
	[CELL_RATE] = { "RATE", true, 20, STYLE_DIM },
	[CELL_MIN] = { "MIN", true, 20, STYLE_DIM },
	[CELL_MEDIAN] = { "MEDIAN", true, 24, STYLE_DIM },
	[CELL_MAX] = { "MAX", true, 20, STYLE_DIM },
};

static void place_text(const struct tag_row *r, char *buf, size_t cap)
{
	const struct view_frame *f = &r->place->frame;
	char place[CELL_TEXT - 32];

	text_place(f->module, f->module_offset, f->function, f->offset, f->ip, place, sizeof(place));
	text_shorten(place, PLACE_MAX);
	if (r->nplaces > 1)
		snprintf(buf, cap, "%s (+%zu)", place, r->nplaces - 1);
	else
		snprintf(buf, cap, "%s", place);
}

static void value_text(const struct value_spread *s, int cell, char *buf, size_t cap)
{
	if (cell == CELL_MEDIAN)
		text_median(s, buf, cap);
	else
		text_number(cell == CELL_MIN ? s->min : s->max, buf, cap);
}

static void cell_text(const void *rows, size_t row, int cell, char *buf, size_t cap)
{
	const struct tag_totals *t = rows;
	const struct tag_row *r = t->v[row];

	buf[0] = '\0';
	switch (cell) {
	case CELL_COUNT:
		snprintf(buf, cap, "%llu", (unsigned long long)r->count);
		break;
	case CELL_TAG:
		utf8_clean(r->tag->text, buf, cap);
		break;
	case CELL_PLACE:
		if (r->place)
			place_text(r, buf, cap);
		break;
	case CELL_SOURCE:
		if (r->place)
			text_source(r->place->source.file, r->place->source.line, buf, cap);
		break;
	case CELL_THREADS:
		snprintf(buf, cap, "%zu", tag_row_threads(r));
		break;
	case CELL_RATE:
		text_rate(tag_row_rate(r), buf, cap);
		break;
	default:
		if (r->values)
			value_text(r->values, cell, buf, cap);
	}
}

void text_median(const struct value_spread *s, char *buf, size_t cap)
{
	uint64_t low, high;
	char text[24];

	value_spread_median(s, &low, &high);
	text_number(low + (high - low) / 2, text, sizeof(text));
	snprintf(buf, cap, "%s%s", low == high ? "" : "about ", text);
}

void text_rate(double per_second, char *buf, size_t cap)
{
	if (per_second <= 0)
		buf[0] = '\0';
	else
		snprintf(buf, cap, per_second < 10 ? "%.1f/s" : "%.0f/s", per_second);
}

void print_text_tags(void *ctx, const struct tag_totals *tags)
{
	struct printer *p = ctx;
	struct text_table t = {
		.column = columns,
		.ncolumns = CELL_MIN,
		.always = CELL_PLACE + 1,
		.rows = tags,
		.nrows = tags->n < ROWS_MAX ? tags->n : ROWS_MAX,
		.cell = cell_text,
	};
	size_t i;

	if (!tags->n)
		return;
	for (i = 0; i < t.nrows; i++)
		if (tags->v[i]->values)
			t.ncolumns = CELLS;
	text_begin_ending(p);
	text_table(p, &t);
	if (tags->n > t.nrows)
		fprintf(p->out, "%zu more tags are not shown: --json has them all.\n", tags->n - t.nrows);
	if (tags->incomplete)
		fputs("Memory ran out: the counts above are too low.\n", p->out);
	fputc('\n', p->out);
}
