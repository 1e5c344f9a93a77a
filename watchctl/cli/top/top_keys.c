/* What the keys do. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/cli/top/top.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/table/site_stats.h"

#define SOURCE_AROUND 6u
#define CODE_BEFORE 6u
#define CODE_AFTER 7u

static void measure_again(struct top *t)
{
	memset(t->want, 0, sizeof(t->want));
}

/* Freezing */

static void thaw(struct top *t)
{
	if (!t->is_frozen)
		return;
	t->is_frozen = false;
	t->stats = site_feed_stats(t->feed);
	site_stats_deinit(&t->frozen);
}

static void toggle_freeze(struct top *t)
{
	if (t->is_frozen) {
		thaw(t);
	} else if (site_stats_copy(site_feed_stats(t->feed), &t->frozen)) {
		t->is_frozen = true;
		t->frozen_at_ns = monotonic_ns();
		t->stats = &t->frozen;
	}
}

/* The page of a site */

static void forget_listings(struct top *t)
{
	listing_deinit(&t->source);
	listing_deinit(&t->code);
	t->source = t->code = (struct listing){ 0 };
}

/* Read once: neither the source nor the code changes while it is looked at. */
static void read_listings(struct top *t, const struct site_stat *s)
{
	const struct frame_name *at = &s->key.location->frame[0];

	forget_listings(t);
	if (at->file)
		listing_source(at->file, s->key.location->module, at->line, SOURCE_AROUND, &t->source);
	listing_code(annotate_symbolizer(t->stats->annotate), annotate_syntax(t->stats->annotate), s->key.ip,
		     CODE_BEFORE, CODE_AFTER, &t->code);
}

static void open_site(struct top *t)
{
	const struct site_stat *s;

	top_rows_selected(t);
	s = site_stats_get(t->stats, t->selected);
	if (!s)
		return;
	t->open = t->selected;
	t->moved = true;
	t->page = TOP_SITE;
	t->scroll = 0;
	read_listings(t, s);
}

/* The list */

static void select_row(struct top *t, size_t at)
{
	if (!t->nrows)
		return;
	t->selected = t->row[at < t->nrows ? at : t->nrows - 1].site->number;
	t->moved = true;
}

static void move_cursor(struct top *t, long by)
{
	size_t at = top_rows_selected(t);

	if (by < 0)
		select_row(t, at > (size_t)-by ? at - (size_t)-by : 0);
	else
		select_row(t, at + (size_t)by);
}

static bool press_move(struct top *t, int key)
{
	long page = t->table_rows > 1 ? t->table_rows - 1 : 1;

	switch (key) {
	case TOP_KEY_UP:
	case 'k':
		move_cursor(t, -1);
		return true;
	case TOP_KEY_DOWN:
	case 'j':
		move_cursor(t, 1);
		return true;
	case TOP_KEY_PAGE_UP:
		move_cursor(t, -page);
		return true;
	case TOP_KEY_PAGE_DOWN:
		move_cursor(t, page);
		return true;
	case TOP_KEY_HOME:
	case 'g':
		t->moved = false;
		t->first = 0;
		return true;
	case TOP_KEY_END:
	case 'G':
		select_row(t, t->nrows);
		return true;
	default:
		return false;
	}
}

static void sort_by(struct top *t, int step)
{
	t->sort = (enum top_sort)(((int)t->sort + step + TOP_SORTS) % TOP_SORTS);
	t->reversed = false;
	t->moved = false;
	t->first = 0;
}

static void choose_watch(struct top *t)
{
	t->watch = t->watch >= t->stats->nwatches ? 0 : t->watch + 1;
	t->first = 0;
	measure_again(t);
}

static void leave_list(struct top *t)
{
	if (!*t->filter) {
		t->quit = true;
		return;
	}
	t->filter[0] = '\0';
	measure_again(t);
}

static void begin_typing(struct top *t)
{
	memcpy(t->filter_before, t->filter, sizeof(t->filter));
	t->typing = true;
}

static void press_list(struct top *t, int key)
{
	if (press_move(t, key))
		return;
	switch (key) {
	case TOP_KEY_ENTER:
		open_site(t);
		break;
	case TOP_KEY_ESCAPE:
		leave_list(t);
		break;
	case 'q':
		t->quit = true;
		break;
	case 's':
		sort_by(t, 1);
		break;
	case 'S':
		sort_by(t, -1);
		break;
	case 'r':
		t->reversed = !t->reversed;
		break;
	case '/':
		begin_typing(t);
		break;
	case 'w':
		choose_watch(t);
		break;
	default:
		break;
	}
}

/* The filter, while it is typed */

static void type_character(struct top *t, int c)
{
	char text[5] = { 0 };
	size_t len = strlen(t->filter), n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

	if (len + n >= sizeof(t->filter))
		return;
	if (n == 1) {
		text[0] = (char)c;
	} else {
		static const unsigned char lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
		size_t i;

		for (i = n - 1; i > 0; i--, c >>= 6)
			text[i] = (char)(0x80 | (c & 0x3f));
		text[0] = (char)(lead[n] | c);
	}
	memcpy(t->filter + len, text, n + 1);
}

static void rub_out(struct top *t)
{
	size_t len = strlen(t->filter);

	while (len && (t->filter[len - 1] & 0xc0) == 0x80)
		len--;
	t->filter[len ? len - 1 : 0] = '\0';
}

static void press_typing(struct top *t, int key)
{
	if (key == TOP_KEY_ENTER) {
		t->typing = false;
	} else if (key == TOP_KEY_ESCAPE) {
		memcpy(t->filter, t->filter_before, sizeof(t->filter));
		t->typing = false;
	} else if (key == TOP_KEY_BACKSPACE) {
		rub_out(t);
	} else if (key < TOP_KEY_UP && key >= 0x20) {
		type_character(t, key);
	}
	t->first = 0;
	measure_again(t);
}

/* The pages that are scrolled */

static void scroll_by(struct top *t, long by)
{
	if (by < 0)
		t->scroll = t->scroll > (size_t)-by ? t->scroll - (size_t)-by : 0;
	else
		t->scroll = t->scroll + (size_t)by < t->scroll_max ? t->scroll + (size_t)by : t->scroll_max;
}

static void leave_page(struct top *t)
{
	if (t->page == TOP_HELP) {
		t->page = t->page_before;
	} else {
		t->page = TOP_LIST;
		forget_listings(t);
	}
	t->scroll = 0;
}

static void press_page(struct top *t, int key)
{
	long page = t->page_rows > 1 ? t->page_rows - 1 : 1;

	switch (key) {
	case TOP_KEY_UP:
	case 'k':
		scroll_by(t, -1);
		break;
	case TOP_KEY_DOWN:
	case 'j':
		scroll_by(t, 1);
		break;
	case TOP_KEY_PAGE_UP:
		scroll_by(t, -page);
		break;
	case TOP_KEY_PAGE_DOWN:
		scroll_by(t, page);
		break;
	case TOP_KEY_HOME:
	case 'g':
		t->scroll = 0;
		break;
	case TOP_KEY_END:
	case 'G':
		t->scroll = t->scroll_max;
		break;
	case 't':
		t->inverted = !t->inverted;
		break;
	case TOP_KEY_ESCAPE:
	case TOP_KEY_BACKSPACE:
	case 'q':
		leave_page(t);
		break;
	default:
		break;
	}
}

static void open_help(struct top *t)
{
	t->page_before = t->page;
	t->page = TOP_HELP;
	t->scroll = 0;
}

void top_press(struct top *t, int key)
{
	if (key == TOP_KEY_RESIZE)
		measure_again(t);
	else if (t->typing)
		press_typing(t, key);
	else if (key == 'f' || key == ' ')
		toggle_freeze(t);
	else if (key == '?' && t->page != TOP_HELP)
		open_help(t);
	else if (t->page == TOP_LIST)
		press_list(t, key);
	else
		press_page(t, key);
}

void top_deinit(struct top *t)
{
	thaw(t);
	forget_listings(t);
	free(t->row);
}
