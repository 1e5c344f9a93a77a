/* The page of help, and the picture as a whole. */
#include <stdio.h>
#include <string.h>

#include "watchctl/cli/top/top.h"

static const char *const help[] = {
	"",
	"One row for each site and kind of access to a variable.",
	"",
	"  arrows, j k, PgUp PgDn, Home End   move",
	"  Enter     open the site: stacks, values, source, instructions, registers",
	"  Esc, q    back; in the list, Esc removes the filter or ends, q ends",
	"  s, S      sort by the next, the previous of: count, rate, time (of the last",
	"            access), function, threads",
	"  r         reverse the order",
	"  /         filter: rows with the text in their function, module, watch, kind,",
	"            source or last value",
	"  w         only the next watch; after the last one, all",
	"  f, Space  freeze the display while counting continues; again: resume",
	"  t         turn a site's stacks: outermost caller first, or the access first",
	"  ?         this help",
	"",
	"COUNT     accesses since the recording began",
	"RATE      accesses a second, over the last two seconds",
	"KIND      read, write, rw (both in one instruction), exec, ? (not known)",
	"THR       number of threads that made them",
	"LAST      the last access: value before -> after; one value: it was read",
	"LAST 60 s accesses during the last minute; each row has its own scale",
	"",
	"\"then f+26\": the accessing instruction is not known; execution continued there.",
	"The value before is the one seen last: another thread may have written between.",
	"When the recording ends, the screen stays until q; the totals follow below.",
};

#define HELP_LINES (sizeof(help) / sizeof(help[0]))

void top_draw_help(struct top *t, int row, int end, int columns)
{
	size_t i;

	t->page_rows = end - row;
	t->scroll_max = HELP_LINES > (size_t)(end - row) ? HELP_LINES - (size_t)(end - row) : 0;
	if (t->scroll > t->scroll_max)
		t->scroll = t->scroll_max;
	for (i = t->scroll; i < HELP_LINES && row < end; i++, row++)
		top_screen_put(row, 1, columns - 1, TOP_PLAIN, help[i]);
}

static void draw_too_small(int rows, int columns)
{
	char text[80];

	snprintf(text, sizeof(text), "too small: %dx%d, needs %dx%d (q quits)", columns, rows,
		 TOP_COLUMNS_MIN, TOP_ROWS_MIN);
	top_screen_put(0, 0, columns, TOP_PLAIN, text);
}

void top_draw(struct top *t)
{
	int rows, columns, row, end;

	top_screen_begin(&rows, &columns);
	if (rows < TOP_ROWS_MIN || columns < TOP_COLUMNS_MIN) {
		draw_too_small(rows, columns);
		top_screen_end();
		return;
	}
	row = top_draw_header(t, rows, columns);
	end = rows - top_footer_rows(t);
	if (t->page == TOP_LIST)
		top_draw_list(t, row, end, columns);
	else if (t->page == TOP_SITE)
		top_draw_site(t, row, end, columns);
	else
		top_draw_help(t, row, end, columns);
	top_draw_footer(t, rows, columns);
	top_screen_end();
}
