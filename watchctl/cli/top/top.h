/*
 * top - what the parts of `watchctl top` share: what is shown, in which order, and where the user is.
 *
 *	top_rows	which sites, in which order
 *	top_list, top_site, top_help	the pages; top_header the lines above and below them
 *	top_keys	what a key changes
 *	top_show	reads, draws, waits; top_lines: the forms without a screen
 *	top_session	the recording, if we began it
 */
#ifndef WATCHCTL_CLI_TOP_TOP_H
#define WATCHCTL_CLI_TOP_TOP_H

#include "watchctl/cli/top/top_doc.h"
#include "watchctl/cli/top/top_screen.h"
#include "watchctl/cli/top/top_words.h"
#include "watchctl/view/event/listing.h"
#include "watchctl/view/table/site_stats_feed.h"

#define TOP_FILTER 64 /* bytes */
#define TOP_CELLS 10  /* columns of the table */
#define TOP_ROWS_MIN 10
#define TOP_COLUMNS_MIN 40

enum top_sort { TOP_BY_COUNT, TOP_BY_RATE, TOP_BY_TIME, TOP_BY_FUNCTION, TOP_BY_THREADS, TOP_SORTS };

enum top_page { TOP_LIST, TOP_SITE, TOP_HELP };

struct top_row {
	const struct site_stat *site;
	double rate;
};

struct top {
	struct site_feed *feed;		/* the log, and the model that it is read into */
	const char *end;		/* how the recording ended, if it was ours; "": not known */
	const struct site_stats *stats; /* what is shown: the feed's, or frozen */
	struct site_stats frozen;
	bool is_frozen;
	uint64_t frozen_at_ns; /* our clock */
	bool utf8;

	enum top_sort sort;
	bool reversed;
	char filter[TOP_FILTER];
	bool typing;			/* the filter is being typed */
	char filter_before[TOP_FILTER]; /* ... and this was it before */
	size_t watch;			/* index of the one that is shown, plus 1; 0: all */

	struct top_row *row; /* made anew for each picture */
	size_t nrows, rows_cap;
	uint32_t selected;   /* number of the site; 0: none yet */
	bool moved;	     /* by the user: the cursor stays on its site; else on the first row */
	size_t first;	     /* row at the top of the table */
	int table_rows;	     /* that fit the screen */
	int want[TOP_CELLS]; /* columns that the table's texts took so far; all 0: to be measured anew */

	enum top_page page, page_before; /* _before: where help returns to */
	size_t scroll;			 /* lines above the screen, of a site's page and of the help */
	size_t scroll_max;
	int page_rows;
	uint32_t open; /* number of the site whose page it is */
	bool inverted; /* its tree */
	struct listing source, code;
	bool quit;
};

/* The rows of now, in order. False: no memory. */
bool top_rows_make(struct top *t);

/* Where the selected site is among the rows; if it is not there any more, the first row is selected. */
size_t top_rows_selected(struct top *t);

/* "count", "rate" ... */
const char *top_sort_name(enum top_sort sort);

/* Draws lines at the top; returns how many. */
int top_draw_header(const struct top *t, int rows, int columns);

/* The last line, and above it, where there is one, the last note. */
int top_footer_rows(const struct top *t);
void top_draw_footer(const struct top *t, int rows, int columns);

/* Draw the lines from @row to, not including, @end. */
void top_draw_list(struct top *t, int row, int end, int columns);
void top_draw_site(struct top *t, int row, int end, int columns);
void top_draw_help(struct top *t, int row, int end, int columns);

/* Draws all of it. */
void top_draw(struct top *t);

/* A key was pressed. */
void top_press(struct top *t, int key);

void top_deinit(struct top *t);

#endif
