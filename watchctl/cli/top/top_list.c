/*
 * The table of sites. Columns are as wide as what is in them; where the screen is too narrow for all, the
 * less important ones are left out, and what is left over goes to names and to the graph.
 */
#include <stdio.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/base/vec.h"
#include "watchctl/cli/top/top.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/site_stats.h"
#include "watchctl/view/table/site_stats_rate.h"

#define CELL_MAX 600
#define GRAPH_MIN 10

enum cell {
	CELL_COUNT,
	CELL_RATE,
	CELL_KIND,
	CELL_THREADS,
	CELL_WATCH,
	CELL_SITE,
	CELL_LAST,
	CELL_SOURCE,
	CELL_GRAPH,
	CELL_INSN,
	CELLS
};

_Static_assert(CELLS == TOP_CELLS, "of struct top");

static const struct table_column {
	const char *title;
	bool right;
	int min, max;	/* columns; max of what is given beyond min */
	int importance; /* the least important ones are left out first */
	int sort;	/* enum top_sort that it shows; -1: none */
	enum top_style style;
} columns_of[CELLS] = {
	[CELL_COUNT] = { "COUNT", true, 5, 26, 9, TOP_BY_COUNT, TOP_STRONG },
	[CELL_RATE] = { "RATE", true, 6, 14, 8, TOP_BY_RATE, TOP_PLAIN },
	[CELL_KIND] = { "KIND", false, 5, 5, 7, -1, TOP_UPDATE },
	[CELL_THREADS] = { "THR", true, 3, 9, 3, TOP_BY_THREADS, TOP_DIM },
	[CELL_WATCH] = { "WATCH", false, 8, 24, 6, -1, TOP_STRONG },
	[CELL_SITE] = { "SITE", false, 12, 56, 10, TOP_BY_FUNCTION, TOP_PLACE },
	[CELL_LAST] = { "LAST", false, 8, 36, 5, TOP_BY_TIME, TOP_PLAIN },
	[CELL_SOURCE] = { "SOURCE", false, 12, 28, 2, -1, TOP_DIM },
	[CELL_GRAPH] = { "LAST 60 s", false, GRAPH_MIN, 30, 4, -1, TOP_GRAPH },
	[CELL_INSN] = { "INSTRUCTION", false, 24, 64, 1, -1, TOP_DIM },
};

struct table {
	const struct top *t;
	int width[CELLS]; /* 0: left out */
};

static void threads_text(const struct site_stat *s, char *buf, size_t cap)
{
	snprintf(buf, cap, "%u%s", s->nthreads, s->more_threads ? "+" : "");
}

static void instruction_text(const struct site_stat *s, char *buf, size_t cap)
{
	utf8_clean(s->key.insn ? s->key.insn : "(not known)", buf, cap - 24);
	if (s->key.origin == ORIGIN_KERNEL)
		snprintf(buf + strlen(buf), 24, "  (by the kernel)");
}

static void cell_text(const struct table *b, const struct top_row *r, enum cell c, char *buf, size_t cap)
{
	const struct site_stat *s = r->site;
	const struct location *l = s->key.location;

	buf[0] = '\0';
	switch (c) {
	case CELL_COUNT:
		top_count_text(s->count, buf, cap);
		break;
	case CELL_RATE:
		top_rate_text(r->rate, buf, cap);
		break;
	case CELL_KIND:
		snprintf(buf, cap, "%s", text_kind(s->key.kind));
		break;
	case CELL_THREADS:
		threads_text(s, buf, cap);
		break;
	case CELL_WATCH:
		utf8_clean(s->key.watch->e.name, buf, cap);
		break;
	case CELL_SITE:
		site_stat_place(s, buf, cap);
		break;
	case CELL_LAST:
		site_stat_change(b->t->stats, s, buf, cap);
		break;
	case CELL_SOURCE:
		text_source(l->frame[0].file, l->frame[0].line, buf, cap);
		break;
	case CELL_INSN:
		instruction_text(s, buf, cap);
		break;
	default:
		break;
	}
}

/* The graph of each row has its own scale: its shape is what can be compared. The rate is in a column. */
static void graph_text(const struct table *b, const struct top_row *r, int width, char *buf, size_t cap)
{
	double column[TOP_GRAPH_MAX], max = 0;
	size_t n = site_rate_graph(&r->site->rate, b->t->stats->now_ns, column,
				   width < TOP_GRAPH_MAX ? (size_t)width : TOP_GRAPH_MAX),
	       i;

	for (i = 0; i < n; i++)
		if (column[i] > max)
			max = column[i];
	top_graph_text(column, n, max, 0, 1, b->t->utf8, buf, cap);
}

/*
 * What each column would like to have, of the rows that are on the screen or were: columns that follow each
 * value would never stand still.
 */
static void top_list_measure(const struct table *b, size_t first, size_t n, int want[CELLS])
{
	char text[CELL_MAX];
	size_t i;
	int c, columns;

	for (c = 0; c < CELLS; c++) {
		columns = (int)strlen(columns_of[c].title) + (columns_of[c].sort >= 0);
		if (columns > want[c])
			want[c] = columns;
		for (i = first; i < first + n && i < b->t->nrows; i++) {
			cell_text(b, &b->t->row[i], (enum cell)c, text, sizeof(text));
			columns = top_screen_columns(text);
			if (columns > want[c])
				want[c] = columns;
		}
		if (want[c] > columns_of[c].max)
			want[c] = columns_of[c].max;
	}
	want[CELL_GRAPH] = columns_of[CELL_GRAPH].max;
	if (b->t->stats->nwatches < 2 || b->t->watch)
		want[CELL_WATCH] = 0;
}

static int least_important(const struct table *b)
{
	int c, least = -1;

	for (c = 0; c < CELLS; c++)
		if (b->width[c] && (least < 0 || columns_of[c].importance < columns_of[least].importance))
			least = c;
	return least;
}

static int total_width(const struct table *b)
{
	int c, total = 0;

	for (c = 0; c < CELLS; c++)
		total += b->width[c] ? b->width[c] + 2 : 0;
	return total;
}

static void arrange(struct table *b, int columns, const int want[CELLS])
{
	/* Who gets what is left over, in this order. */
	static const enum cell order[] = { CELL_COUNT, CELL_RATE,   CELL_THREADS, CELL_WATCH, CELL_LAST,
					   CELL_SITE,  CELL_SOURCE, CELL_GRAPH,	  CELL_INSN };
	int c, left, i;

	for (c = 0; c < CELLS; c++)
		b->width[c] = !want[c] ? 0 : want[c] < columns_of[c].min ? want[c] : columns_of[c].min;
	while (total_width(b) > columns && (c = least_important(b)) >= 0 && c != CELL_SITE)
		b->width[c] = 0;
	left = columns - total_width(b);
	for (i = 0; i < (int)(sizeof(order) / sizeof(order[0])); i++) {
		int more = b->width[order[i]] ? want[order[i]] - b->width[order[i]] : 0;

		if (more > left)
			more = left;
		if (more > 0) {
			b->width[order[i]] += more;
			left -= more;
		}
	}
}

static void draw_titles(const struct table *b, int row, int columns)
{
	char title[32];
	int c, at = 0;

	top_screen_fill(row, 0, columns, TOP_BAR);
	for (c = 0; c < CELLS; c++) {
		const struct table_column *col = &columns_of[c];
		bool sorted = col->sort >= 0 && (enum top_sort)col->sort == b->t->sort;
		int used;

		if (!b->width[c])
			continue;
		snprintf(title, sizeof(title), "%s%s", col->title, !sorted ? "" : b->t->reversed ? "^" : "v");
		used = (int)strlen(title);
		top_screen_put(row, col->right && used < b->width[c] ? at + b->width[c] - used : at,
			       b->width[c], TOP_BAR, title);
		at += b->width[c] + 2;
	}
}

static enum top_style cell_style(const struct top_row *r, int c)
{
	if (c != CELL_KIND)
		return columns_of[c].style;
	return r->site->key.kind == ACCESS_READ	   ? TOP_READ
	       : r->site->key.kind == ACCESS_WRITE ? TOP_WRITE
						   : TOP_UPDATE;
}

/* "-> CLOSED", "= CLOSED": what is new matters more than what it was before. */
static void shorten_change(char *text, int width)
{
	static const char same[] = " (same)";
	size_t len = strlen(text), tail = sizeof(same) - 1;
	const char *arrow = strstr(text, " -> ");

	if (top_screen_columns(text) > width) {
		if (arrow) {
			memmove(text, arrow + 1, strlen(arrow + 1) + 1);
		} else if (len > tail && !strcmp(text + len - tail, same)) {
			text[len - tail] = '\0';
			memmove(text + 2, text, len - tail + 1);
			memcpy(text, "= ", 2);
		}
	}
	text_cut_middle(text, (size_t)width);
}

static void draw_row(const struct table *b, const struct top_row *r, int row, int columns)
{
	bool selected = r->site->number == b->t->selected;
	char text[CELL_MAX + TOP_GRAPH_MAX];
	int c, at = 0, used;

	if (selected)
		top_screen_fill(row, 0, columns, TOP_SELECTED);
	for (c = 0; c < CELLS; c++) {
		if (!b->width[c])
			continue;
		if (c == CELL_GRAPH) {
			graph_text(b, r, b->width[c], text, sizeof(text));
		} else {
			cell_text(b, r, (enum cell)c, text, sizeof(text));
			if (c == CELL_SITE || c == CELL_SOURCE)
				text_shorten(text, (size_t)b->width[c]);
			else if (c == CELL_LAST)
				shorten_change(text, b->width[c]);
			else if (c == CELL_WATCH)
				text_cut_middle(text, (size_t)b->width[c]);
		}
		used = top_screen_columns(text);
		top_screen_put(row, columns_of[c].right && used < b->width[c] ? at + b->width[c] - used : at,
			       b->width[c], selected ? TOP_SELECTED : cell_style(r, c), text);
		at += b->width[c] + 2;
	}
}

/* The selected row is on the screen; where it can, the table does not move under it. */
static void scroll_to_selected(struct top *t, size_t rows)
{
	size_t at = top_rows_selected(t);

	if (t->first + rows > t->nrows)
		t->first = t->nrows > rows ? t->nrows - rows : 0;
	if (at < t->first)
		t->first = at;
	else if (rows && at >= t->first + rows)
		t->first = at - rows + 1;
}

/* Why there is no row. */
static void draw_empty(const struct top *t, int row)
{
	const struct site_stats *s = t->stats;
	char text[200];

	if (s->n)
		snprintf(text, sizeof(text), "none of the %zu sites passes the filter", s->n);
	else if (s->probes)
		snprintf(text, sizeof(text),
			 "no accesses, but %llu events of probes: watchctl report prints those",
			 (unsigned long long)s->probes);
	else if (s->captures || s->calls)
		snprintf(text, sizeof(text),
			 "no accesses, but %llu captures and %llu calls: watchctl report prints those",
			 (unsigned long long)s->captures, (unsigned long long)s->calls);
	else
		snprintf(text, sizeof(text), "no access so far");
	top_screen_put(row, 2, (int)strlen(text), TOP_DIM, text);
}

void top_draw_list(struct top *t, int row, int end, int columns)
{
	struct table b = { .t = t };
	size_t i, rows;

	if (!top_rows_make(t) || row + 1 >= end)
		return;
	rows = (size_t)(end - row - 1);
	t->table_rows = (int)rows;
	scroll_to_selected(t, rows);
	top_list_measure(&b, t->first, rows, t->want);
	arrange(&b, columns, t->want);
	draw_titles(&b, row++, columns);
	for (i = t->first; i < t->nrows && row < end; i++, row++)
		draw_row(&b, &t->row[i], row, columns);
	if (!t->nrows)
		draw_empty(t, row + 1 < end ? row + 1 : row);
}
