/* The table of calls on the screen, and its keys. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/cli/top/top.h"
#include "watchctl/cli/top/top_calls_impl.h"
#include "watchctl/cli/top/top_screen.h"
#include "watchctl/cli/top/top_words.h"
#include "watchctl/view/words/text_shorten.h"

#define HURRY_NS 100000000u /* between pictures, whatever is pressed */
#define WAIT_MS 500	    /* when nothing changes any more */
#define FUNCTION_LEAST 12   /* columns */

/* The columns that a narrow screen leaves out, in this order. */
static const int left_out[] = { CELL_MODULE,	 CELL_OPEN,	  CALL_TIMES_LONGEST, CALL_TIMES_P99,
				CALL_TIMES_MEAN, CALL_TIMES_RATE, CALL_TIMES_SELF };

static void measure(const struct top_calls *t, int columns, int width[CELLS])
{
	char text[TOP_CALLS_CELL];
	int total = 0;

	for (int c = 0; c < CELLS; c++) {
		width[c] = (int)strlen(top_calls_columns[c].title) + (c != CELL_MODULE && c != CELL_OPEN);
		for (size_t i = t->first; i < t->first + t->rows && i < t->times.nfunctions; i++) {
			int n;

			top_calls_cell(t, i, c, text, sizeof(text));
			n = top_screen_columns(text);
			if (n > (int)top_calls_columns[c].max)
				n = (int)top_calls_columns[c].max;
			if (n > width[c])
				width[c] = n;
		}
		total += c == CELL_FUNCTION ? FUNCTION_LEAST : width[c] + 2;
	}
	for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]) && total > columns; i++) {
		total -= width[left_out[i]] + 2;
		width[left_out[i]] = 0;
	}
	total += width[CELL_FUNCTION] - FUNCTION_LEAST;
	if (total > columns)
		width[CELL_FUNCTION] -= total - columns;
}

/* The text of a row, or with @row beyond the last one the titles. */
static void draw_line(const struct top_calls *t, size_t row, int at_row, const int width[CELLS])
{
	const bool titles = row >= t->times.nfunctions;
	char text[TOP_CALLS_CELL];
	int at = 0;

	for (int c = 0; c < CELLS; c++) {
		const int by = c == CELL_FUNCTION ? CALL_TIMES_NAME : c < CELL_OPEN ? c : -1;
		int used;

		if (width[c] <= 0)
			continue;
		if (titles)
			snprintf(text, sizeof(text), "%s%s", top_calls_columns[c].title,
				 by != (int)t->by ? ""
				 : t->reversed	  ? "^"
						  : "v");
		else
			top_calls_cell(t, row, c, text, sizeof(text));
		text_shorten(text, (size_t)width[c]);
		used = top_screen_columns(text);
		top_screen_put(at_row,
			       top_calls_columns[c].right && used < width[c] ? at + width[c] - used : at,
			       width[c],
			       titles		       ? TOP_BAR
			       : c == CELL_FUNCTION    ? TOP_PLACE
			       : c == CALL_TIMES_CALLS ? TOP_STRONG
						       : TOP_PLAIN,
			       text);
		at += width[c] + 2;
	}
}

static void draw_state(const struct top_calls *t, int row, int columns)
{
	char text[TOP_CALLS_CELL], off[TOP_WORD] = "";

	if (t->counts.off)
		snprintf(off, sizeof(off), "; %zu %s switched off", t->counts.off,
			 top_plural(t->counts.off, "function", "functions"));
	if (t->ended_ns)
		snprintf(text, sizeof(text), "ENDED: %s; %" PRIu64 " calls lost, %" PRIu64 " not recorded%s",
			 top_calls_end(t), t->counts.lost, t->counts.switched_off, off);
	else
		snprintf(text, sizeof(text), "RECORDING%s", off);
	top_screen_put(row, 0, columns, t->counts.off || t->counts.lost ? TOP_ALERT : TOP_DIM, text);
}

static void clamp_first(struct top_calls *t)
{
	const size_t n = t->times.nfunctions;

	if (t->first + t->rows > n)
		t->first = n > t->rows ? n - t->rows : 0;
}

static void draw(struct top_calls *t)
{
	int rows, columns, width[CELLS];
	char text[TOP_CALLS_CELL];

	top_screen_begin(&rows, &columns);
	if (rows < TOP_ROWS_MIN || columns < TOP_COLUMNS_MIN) {
		snprintf(text, sizeof(text), "too small: %dx%d, needs %dx%d (q quits)", columns, rows,
			 TOP_COLUMNS_MIN, TOP_ROWS_MIN);
		top_screen_put(0, 0, columns, TOP_PLAIN, text);
		top_screen_end();
		return;
	}
	if (t->trace)
		call_trace_so_far(t->trace, &t->counts);
	top_calls_sort(t);
	t->rows = (size_t)(rows - 4);
	clamp_first(t);
	top_calls_head(t, text, sizeof(text));
	top_screen_put(0, 0, columns, TOP_STRONG, text);
	draw_state(t, 1, columns);
	measure(t, columns, width);
	top_screen_fill(2, 0, columns, TOP_BAR);
	draw_line(t, SIZE_MAX, 2, width);
	for (size_t i = 0; i < t->rows && t->first + i < t->times.nfunctions; i++)
		draw_line(t, t->first + i, 3 + (int)i, width);
	if (!t->times.nfunctions)
		top_screen_put(3, 2, columns - 2, TOP_DIM, "no call so far");
	top_screen_fill(rows - 1, 0, columns, TOP_BAR);
	top_screen_put(rows - 1, 0, columns, TOP_BAR,
		       "s S sort   r reverse   arrows, PgUp, PgDn move   q quit");
	top_screen_end();
	t->drawn_ns = monotonic_ns();
	t->hurry = false;
}

static void scroll(struct top_calls *t, size_t up, size_t down)
{
	t->first = t->first > up ? t->first - up : 0;
	t->first += down;
	clamp_first(t);
}

static void press(struct top_calls *t, int key)
{
	const size_t page = t->rows > 1 ? t->rows - 1 : 1;

	switch (key) {
	case 's':
		t->by = (t->by + 1) % CALL_TIMES_ORDERS;
		break;
	case 'S':
		t->by = (t->by + CALL_TIMES_ORDERS - 1) % CALL_TIMES_ORDERS;
		break;
	case 'r':
		t->reversed = !t->reversed;
		break;
	case TOP_KEY_UP:
	case 'k':
		scroll(t, 1, 0);
		break;
	case TOP_KEY_DOWN:
	case 'j':
		scroll(t, 0, 1);
		break;
	case TOP_KEY_PAGE_UP:
		scroll(t, page, 0);
		break;
	case TOP_KEY_PAGE_DOWN:
		scroll(t, 0, page);
		break;
	case TOP_KEY_HOME:
	case 'g':
		t->first = 0;
		break;
	case TOP_KEY_END:
	case 'G':
		scroll(t, 0, t->times.nfunctions);
		break;
	case TOP_KEY_ESCAPE:
	case 'q':
		t->quit = true;
		break;
	default:
		break;
	}
	t->hurry = true;
}

struct wc_error *top_calls_tick(void *ctx)
{
	struct top_calls *t = ctx;
	uint64_t since;
	int key;

	while (!t->quit && (key = top_screen_key()) != TOP_KEY_NONE)
		press(t, key);
	if (top_screen_stop_if_asked())
		t->hurry = true;
	if (top_screen_is_gone())
		t->quit = true;
	if (t->quit)
		*t->ask->stop = SIGINT; /* what runs the trace looks at it, too */
	since = monotonic_ns() - t->drawn_ns;
	if (!t->quit && (since >= t->ask->delay_ns || (t->hurry && since >= HURRY_NS)))
		draw(t);
	return NULL;
}

void top_calls_stay(struct top_calls *t)
{
	struct pollfd p = { .fd = top_screen_fd(), .events = POLLIN };

	draw(t);
	while (!t->quit && !*t->ask->stop) {
		poll(&p, 1, t->hurry ? HURRY_NS / 1000000 : WAIT_MS);
		top_calls_tick(t);
	}
}
