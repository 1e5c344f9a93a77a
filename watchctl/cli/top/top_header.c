/* The lines around the pages: what is watched, how it goes, what the keys do. */
#include <stdio.h>
#include <string.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/utf8.h"
#include "watchctl/cli/top/top.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/site_stats_rate.h"

#define WATCH_LINES 4
#define KEY_TEXTS 3 /* the longest that fits is shown */
#define REMARK_MAX (SITE_STATS_NOTE + TOP_WORD + 16)

/* The text ends at the last column; nothing of it is drawn over what ends at @from. */
static void put_right(int row, int from, int columns, enum top_style style, const char *text)
{
	int width = top_screen_columns(text);

	if (columns - width > from)
		top_screen_put(row, columns - width, width, style, text);
}

static const char *state_word(const struct top *t)
{
	switch (site_feed_state(t->feed)) {
	case FEED_BEHIND:
		return "READING";
	case FEED_CAUGHT_UP:
		return "RECORDING";
	default:
		return "ENDED";
	}
}

/* "RECORDING", "ENDED: the process has ended", "FROZEN for 12.3 s, 1,234 accesses since" */
static void state_text(const struct top *t, char *buf, size_t cap)
{
	const struct site_stats *now = site_feed_stats(t->feed);
	char elapsed[TOP_WORD], since[TOP_WORD];

	if (t->is_frozen) {
		top_elapsed_text(monotonic_ns() - t->frozen_at_ns, elapsed, sizeof(elapsed));
		top_count_text(now->total - t->frozen.total, since, sizeof(since));
		snprintf(buf, cap, "FROZEN for %s, %s accesses since%s", elapsed, since,
			 site_feed_state(t->feed) == FEED_ENDED ? "; ended" : "");
	} else if (site_feed_state(t->feed) == FEED_ENDED && *t->end) {
		snprintf(buf, cap, "ENDED: %s", t->end);
	} else {
		snprintf(buf, cap, "%s", state_word(t));
	}
}

static void draw_title(const struct top *t, int columns)
{
	const struct site_stats *s = t->stats;
	char process[160] = "no process yet", state[300], elapsed[TOP_WORD], text[512];
	int used;

	if (s->pid)
		snprintf(process, sizeof(process), "%s/%d", *s->comm ? s->comm : "?", s->pid);
	state_text(t, state, sizeof(state));
	top_screen_fill(0, 0, columns, TOP_BAR);
	snprintf(text, sizeof(text), " %s  %s ", process, state);
	used = top_screen_put(0, 0, columns, TOP_BAR, text);
	top_elapsed_text(s->now_ns - s->begun_ns, elapsed, sizeof(elapsed));
	snprintf(text, sizeof(text), "%s%s  %s ", *s->host ? "on " : "", s->host, elapsed);
	if (used + top_screen_columns(text) >= columns)
		snprintf(text, sizeof(text), "%s ", elapsed);
	put_right(0, used, columns, TOP_BAR, text);
}

/* "by count, filter peek": always there; what stands left of it gives way. */
static int draw_choice(const struct top *t, int row, int columns)
{
	char text[256];
	int width;

	snprintf(text, sizeof(text), "by %s%s%s%s%s ", top_sort_name(t->sort),
		 t->reversed ? ", reversed" : "", *t->filter ? ", filter " : "", t->filter,
		 t->watch ? ", one watch" : "");
	width = top_screen_columns(text);
	put_right(row, 0, columns, *t->filter || t->watch ? TOP_STRONG : TOP_DIM, text);
	return width < columns ? columns - width - 1 : columns;
}

static void draw_totals(const struct top *t, int row, int columns)
{
	const struct site_stats *s = t->stats;
	char count[TOP_WORD], rate[TOP_WORD], lost[TOP_WORD], text[256];
	double seconds = (double)(s->now_ns - s->begun_ns) / 1e9;
	int used, end = draw_choice(t, row, columns);

	top_count_text(s->total, count, sizeof(count));
	top_rate_text(site_rate_now(&s->rate, s->begun_ns, s->now_ns), rate, sizeof(rate));
	snprintf(text, sizeof(text), " %s %s, %s", count, top_plural(s->total, "access", "accesses"), rate);
	used = top_screen_put(row, 0, end, TOP_STRONG, text);
	top_count_text(s->lost, lost, sizeof(lost));
	snprintf(text, sizeof(text), ", %s lost", lost);
	used += top_screen_put(row, used, end - used, s->lost ? TOP_ALERT : TOP_PLAIN, text);
	snprintf(text, sizeof(text), ", %zu %s", s->n, top_plural(s->n, "site", "sites"));
	if (used + top_screen_columns(text) <= end)
		used += top_screen_put(row, used, end - used, TOP_PLAIN, text);
	top_rate_text(seconds > 0 ? (double)s->total / seconds : 0, rate, sizeof(rate));
	snprintf(text, sizeof(text), ", mean %s", rate);
	if (used + top_screen_columns(text) <= end)
		top_screen_put(row, used, end - used, TOP_PLAIN, text);
}

/* "reads and writes where new==0, armed on 5 of 5 threads, int, handler engine": what matters most comes
 * first, because a narrow screen cuts the end. */
static void watch_text(const struct watch_event *e, char *buf, size_t cap)
{
	char type[80] = "", filter[120] = "", engine[24] = "";

	if (e->type.name && *e->type.name && e->access != ACCESS_EXECUTE)
		utf8_clean(e->type.name, type, sizeof(type));
	if (e->filter)
		utf8_clean(e->filter, filter, sizeof(filter));
	utf8_clean(e->engine ? e->engine : "?", engine, sizeof(engine));
	snprintf(buf, cap, "%s%s%s, armed on %u of %u %s%s%s, %s engine", text_access(e->access),
		 *filter ? " where " : "", filter, e->threads_armed, e->threads,
		 top_plural(e->threads, "thread", "threads"), *type ? ", " : "", type, engine);
}

static void draw_watch(const struct top *t, size_t i, int row, int columns)
{
	const struct watch_stat *w = &t->stats->watch[i];
	char name[80], count[TOP_WORD], rate[TOP_WORD], lost[TOP_WORD] = "", how[400], text[420];
	bool chosen = t->watch == i + 1;
	int used;

	utf8_clean(w->watch->e.name ? w->watch->e.name : "?", name, sizeof(name));
	text_cut_middle(name, 32);
	top_count_text(w->count, count, sizeof(count));
	top_rate_text(site_rate_now(&w->rate, t->stats->begun_ns, t->stats->now_ns), rate, sizeof(rate));
	used = top_screen_put(row, 0, columns, TOP_STRONG, chosen ? ">" : " ");
	used += top_screen_put(row, used, columns - used, chosen ? TOP_SELECTED : TOP_STRONG, name);
	if (t->stats->nwatches > 1) {
		snprintf(text, sizeof(text), "  %s, %s", count, rate);
		used += top_screen_put(row, used, columns - used, TOP_PLAIN, text);
	}
	if (w->lost && t->stats->nwatches > 1) {
		top_count_text(w->lost, lost, sizeof(lost));
		snprintf(text, sizeof(text), ", %s lost", lost);
		used += top_screen_put(row, used, columns - used, TOP_ALERT, text);
	}
	if (!w->watch->known)
		return;
	watch_text(&w->watch->e, how, sizeof(how));
	snprintf(text, sizeof(text), "  %s", how);
	top_screen_put(row, used, columns - used,
		       w->watch->e.threads_armed < w->watch->e.threads ? TOP_ALERT : TOP_DIM, text);
}

int top_draw_header(const struct top *t, int rows, int columns)
{
	size_t shown = t->stats->nwatches, i;
	size_t room = rows >= 20 ? WATCH_LINES : 1;
	char text[80];
	int row = 2;

	draw_title(t, columns);
	draw_totals(t, 1, columns);
	if (shown > room)
		shown = room == 1 ? 0 : room - 1;
	for (i = 0; i < shown; i++)
		draw_watch(t, i, row++, columns);
	if (t->stats->nwatches > shown) {
		snprintf(text, sizeof(text), " %zu %swatches (w chooses one)", t->stats->nwatches - shown,
			 shown ? "more " : "");
		top_screen_put(row++, 0, columns, TOP_DIM, text);
	}
	return row;
}

/* What is missing from what is shown, and why; "": nothing. */
static void gaps_text(const struct top *t, char *buf, size_t cap)
{
	const struct site_stats *s = t->stats;
	const char *why;
	uint64_t missed = site_feed_missed(t->feed, &why);

	buf[0] = '\0';
	if (missed)
		snprintf(buf, cap, " %llu bytes of the log were not read: %s", (unsigned long long)missed,
			 why);
	else if ((missed = site_feed_ignored(t->feed, &why)) || why)
		snprintf(buf, cap, " the log is not whole: its last %llu bytes cannot be read: %s",
			 (unsigned long long)missed, why);
	else if (s->incomplete)
		snprintf(buf, cap, " memory ran out: some sites, threads or values are missing");
	else if (s->unlisted)
		snprintf(buf, cap, " %llu accesses of further sites are not listed: there are more than %u",
			 (unsigned long long)s->unlisted, SITE_STATS_SITES);
}

/* Where the page stands, if there is more than fits: "3-22 of 64". */
static void where_text(const struct top *t, char *buf, size_t cap)
{
	size_t first = t->scroll, rows = (size_t)t->page_rows, all = t->scroll_max + rows;

	if (t->page == TOP_LIST) {
		first = t->first;
		rows = (size_t)t->table_rows;
		all = t->nrows;
	}
	buf[0] = '\0';
	if (all > rows)
		snprintf(buf, cap, " %zu-%zu of %zu ", first + 1, first + rows < all ? first + rows : all,
			 all);
}

static void draw_keys(const struct top *t, int row, int columns)
{
	static const char *const keys[][KEY_TEXTS] = {
		[TOP_LIST] = { " Enter site  s sort  r reverse  / filter  f freeze  w watch  ? help  q quit",
			       " Enter site  s sort  / filter  f freeze  ? help  q quit",
			       " Enter site  / filter  ? help" },
		[TOP_SITE] = { " Esc back  arrows scroll  t turn the tree  f freeze  ? help",
			       " Esc back  t turn the tree  ? help", " Esc back  ? help" },
		[TOP_HELP] = { " Esc back", " Esc back", " Esc back" },
	};
	char text[80];
	int used, i;

	where_text(t, text, sizeof(text));
	used = top_screen_columns(text);
	for (i = 0; i + 1 < KEY_TEXTS && top_screen_columns(keys[t->page][i]) + used >= columns; i++)
		;
	top_screen_fill(row, 0, columns, TOP_BAR);
	used = top_screen_put(row, 0, columns, TOP_BAR, keys[t->page][i]);
	put_right(row, used, columns, TOP_BAR, text);
}

static void draw_filter(const struct top *t, int row, int columns)
{
	int used;

	used = top_screen_put(row, 0, columns, TOP_STRONG, " filter: ");
	used += top_screen_put(row, used, columns - used, TOP_PLAIN, t->filter);
	used += top_screen_put(row, used, columns - used, TOP_BAR, " ");
	put_right(row, used, columns, TOP_DIM,
		  "function, module, watch, kind, value; Enter keeps it, Esc discards it ");
}

/* The line above the keys; "": there is none. */
static enum top_style remark_text(const struct top *t, char *buf, size_t cap)
{
	const struct site_stats *s = t->stats;
	char when[TOP_WORD];

	gaps_text(t, buf, cap);
	if (*buf)
		return TOP_ALERT;
	if (*s->note) {
		top_time_text(s->note_time, when, sizeof(when));
		snprintf(buf, cap, " %s  note: %s", when, s->note);
	}
	return TOP_UPDATE;
}

int top_footer_rows(const struct top *t)
{
	char text[REMARK_MAX];

	remark_text(t, text, sizeof(text));
	return *text ? 2 : 1;
}

void top_draw_footer(const struct top *t, int rows, int columns)
{
	char text[REMARK_MAX];
	enum top_style style = remark_text(t, text, sizeof(text));

	if (t->typing)
		draw_filter(t, rows - 1, columns);
	else
		draw_keys(t, rows - 1, columns);
	if (*text)
		top_screen_put(rows - 2, 0, columns, style, text);
}
