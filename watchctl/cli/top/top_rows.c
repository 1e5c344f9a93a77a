/* Which sites are shown, and in which order. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/cli/top/top.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/site_stats.h"

const char *top_sort_name(enum top_sort sort)
{
	static const char *const name[TOP_SORTS] = {
		[TOP_BY_COUNT] = "count",	[TOP_BY_RATE] = "rate",	      [TOP_BY_TIME] = "time",
		[TOP_BY_FUNCTION] = "function", [TOP_BY_THREADS] = "threads",
	};

	return name[sort];
}

static bool has(const char *text, const char *part)
{
	return text && strcasestr(text, part);
}

/* The filter is in one of the texts that the row, or its page's title, shows. */
static bool passes(const struct top *t, const struct site_stat *s)
{
	const struct location *l = s->key.location;
	char text[CELL_TEXT];
	size_t i;

	if (t->watch && t->stats->watch[t->watch - 1].watch != s->key.watch)
		return false;
	if (!*t->filter)
		return true;
	for (i = 0; i < l->nframes; i++)
		if (has(l->frame[i].function, t->filter))
			return true;
	site_stat_place(s, text, sizeof(text));
	if (has(text, t->filter) || has(l->module ? text_base_name(l->module) : NULL, t->filter) ||
	    has(s->key.watch->e.name, t->filter) || has(text_kind(s->key.kind), t->filter))
		return true;
	text_source(l->frame[0].file, l->frame[0].line, text, sizeof(text));
	if (has(text, t->filter))
		return true;
	site_stat_change(t->stats, s, text, sizeof(text));
	return has(text, t->filter);
}

static const char *function_of(const struct site_stat *s)
{
	const char *name = s->key.location->frame[s->key.location->nframes - 1].function;

	return name ? name : "";
}

static int descending(uint64_t x, uint64_t y)
{
	return (x < y) - (x > y);
}

static int compare_by(enum top_sort sort, const struct top_row *x, const struct top_row *y)
{
	const struct site_stat *a = x->site, *b = y->site;
	int order;

	switch (sort) {
	case TOP_BY_RATE:
		return (x->rate < y->rate) - (x->rate > y->rate);
	case TOP_BY_TIME:
		return descending(a->last.time.mono_ns, b->last.time.mono_ns);
	case TOP_BY_THREADS:
		return descending(a->nthreads, b->nthreads);
	case TOP_BY_FUNCTION:
		order = strcmp(function_of(a), function_of(b));
		return order ? order : -descending(a->key.location->offset, b->key.location->offset);
	default:
		return descending(a->count, b->count);
	}
}

/* Rows that are equal in what is asked for: most accesses first, then the oldest: none changes its place for
 * nothing. */
static int top_rows_compare(const void *a, const void *b, void *ctx)
{
	const struct top *t = ctx;
	const struct top_row *x = a, *y = b;
	int order = compare_by(t->sort, x, y);

	if (t->reversed)
		order = -order;
	if (!order)
		order = compare_by(TOP_BY_COUNT, x, y);
	return order ? order : -descending(x->site->number, y->site->number);
}

bool top_rows_make(struct top *t)
{
	size_t i;

	t->nrows = 0;
	if (!vec_reserve((void **)&t->row, &t->rows_cap, t->stats->n + 1, sizeof(*t->row)))
		return false;
	for (i = 0; i < t->stats->n; i++) {
		const struct site_stat *s = t->stats->v[i];

		if (passes(t, s))
			t->row[t->nrows++] = (struct top_row){ s, site_stat_rate(t->stats, s) };
	}
	qsort_r(t->row, t->nrows, sizeof(*t->row), top_rows_compare, t);
	return true;
}

size_t top_rows_selected(struct top *t)
{
	size_t i;

	for (i = 0; i < t->nrows && t->moved; i++)
		if (t->row[i].site->number == t->selected)
			return i;
	t->selected = t->nrows ? t->row[0].site->number : 0;
	return 0;
}
