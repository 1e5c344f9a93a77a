/*
 * The forms without a screen: a table every few seconds for people at a terminal that cannot move its cursor
 * or behind a pipe, or an object a line for programs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/utf8.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/top/top.h"
#include "watchctl/cli/top/top_show.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/site_stats.h"
#include "watchctl/view/table/site_stats_rate.h"
#include "watchctl/view/words/json.h"

#define READ_NS 50000000u
#define ROWS_IN_PASSING 20 /* of a table; at the end, all */

/* Tables */

enum { CELL_COUNT, CELL_RATE, CELL_KIND, CELL_THREADS, CELL_WATCH, CELL_SITE, CELL_LAST, CELL_SOURCE, CELLS };

static const struct text_column columns_of[CELLS] = {
	[CELL_COUNT] = { "COUNT", true, 26, STYLE_WATCH },
	[CELL_RATE] = { "RATE", true, 16, STYLE_WATCH },
	[CELL_KIND] = { "KIND", false, 5, STYLE_UPDATE },
	[CELL_THREADS] = { "THREADS", true, 9, STYLE_DIM },
	[CELL_WATCH] = { "WATCH", false, 48, STYLE_WATCH },
	[CELL_SITE] = { "SITE", false, 48, STYLE_PLACE },
	[CELL_LAST] = { "LAST", false, 32, STYLE_DIM },
	[CELL_SOURCE] = { "SOURCE", false, 32, STYLE_DIM },
};

static void line_cell(const void *rows, size_t row, int cell, char *buf, size_t cap)
{
	const struct top *t = rows;
	const struct top_row *r = &t->row[row];
	const struct location *l = r->site->key.location;

	switch (cell) {
	case CELL_COUNT:
		top_count_text(r->site->count, buf, cap);
		break;
	case CELL_RATE:
		top_rate_text(r->rate, buf, cap);
		break;
	case CELL_KIND:
		snprintf(buf, cap, "%s", text_kind(r->site->key.kind));
		break;
	case CELL_THREADS:
		snprintf(buf, cap, "%u%s", r->site->nthreads, r->site->more_threads ? "+" : "");
		break;
	case CELL_WATCH:
		utf8_clean(r->site->key.watch->e.name, buf, cap);
		break;
	case CELL_SITE:
		site_stat_place(r->site, buf, cap);
		break;
	case CELL_LAST:
		site_stat_change(t->stats, r->site, buf, cap);
		break;
	default:
		text_source(l->frame[0].file, l->frame[0].line, buf, cap);
		break;
	}
}

static void print_head(const struct top *t)
{
	const struct site_stats *s = t->stats;
	char count[TOP_WORD], rate[TOP_WORD], elapsed[TOP_WORD];

	top_count_text(s->total, count, sizeof(count));
	top_rate_text(site_rate_now(&s->rate, s->begun_ns, s->now_ns), rate, sizeof(rate));
	top_elapsed_text(s->now_ns - s->begun_ns, elapsed, sizeof(elapsed));
	printf("%s/%d after %s: %s %s, %s, %" PRIu64 " lost, %zu %s\n", *s->comm ? s->comm : "?", s->pid,
	       elapsed, count, top_plural(s->total, "access", "accesses"), rate, s->lost, s->n,
	       top_plural(s->n, "site", "sites"));
}

static void print_table(struct top *t, bool all)
{
	struct print_options plain = { .width = terminal_width(STDOUT_FILENO) };
	scoped(printer_freep) struct printer *p = print_text_new(stdout, &plain);
	struct text_table table = {
		.column = columns_of, .ncolumns = CELLS, .always = CELL_SITE + 1, .rows = t, .cell = line_cell
	};

	if (!p || !top_rows_make(t))
		return;
	table.nrows = all || t->nrows < ROWS_IN_PASSING ? t->nrows : ROWS_IN_PASSING;
	print_head(t);
	if (table.nrows)
		text_table(p, &table);
	if (table.nrows < t->nrows)
		printf("and %zu more\n", t->nrows - table.nrows);
	if (t->stats->unlisted)
		printf("%" PRIu64 " accesses of further sites are not listed: there are more than %u\n",
		       t->stats->unlisted, SITE_STATS_SITES);
	putchar('\n');
}

/* Objects */

static uint64_t rounded(double rate)
{
	return (uint64_t)(rate + 0.5);
}

static void text_if(struct json *j, const char *name, const char *text)
{
	if (text && *text)
		json_text(j, name, text);
}

static void put_place(struct json *j, const struct site_stat *site)
{
	const struct location *l = site->key.location;
	const char *function = l->frame[l->nframes - 1].function;

	json_hex(j, site->key.after ? "next_ip" : "ip", site->key.ip);
	text_if(j, "insn", site->key.insn);
	text_if(j, "module", l->module);
	if (l->module)
		json_hex(j, "module_offset", l->module_offset);
	if (function) {
		json_text(j, "function", function);
		json_number(j, "offset", l->offset);
	}
	text_if(j, "file", l->frame[0].file);
	if (l->frame[0].line)
		json_number(j, "line", l->frame[0].line);
}

static void put_last(struct json *j, const struct site_stats *s, const struct site_stat *site)
{
	const struct site_last *l = &site->last;
	unsigned int size = l->size ? l->size : 8;
	char text[160];

	json_number(j, "last_ns", l->time.mono_ns);
	if (l->has_old) {
		json_hex(j, "old", l->old_value);
		annotate_value(s->annotate, site->key.watch, size, l->old_value, text, sizeof(text));
		json_text(j, "old_text", text);
	}
	if (l->old_uncertain)
		json_bool(j, "old_uncertain", true);
	if (l->has_new) {
		json_hex(j, "new", l->new_value);
		annotate_value(s->annotate, site->key.watch, size, l->new_value, text, sizeof(text));
		json_text(j, "new_text", text);
	}
	if (l->withheld & WITHHELD_VALUES) {
		json_open(j, "withheld", '[');
		json_text(j, NULL, "values");
		json_close(j, ']');
	}
}

static void put_site(struct json *j, const struct site_stats *s, const struct top_row *r)
{
	static const char *const kind[] = {
		[ACCESS_UNKNOWN] = "unknown",	  [ACCESS_READ] = "read",	[ACCESS_WRITE] = "write",
		[ACCESS_READWRITE] = "readwrite", [ACCESS_EXECUTE] = "execute",
	};
	const struct site_stat *site = r->site;

	json_open(j, NULL, '{');
	json_text(j, "watch", site->key.watch->e.name ? site->key.watch->e.name : "");
	json_text(j, "kind", kind[site->key.kind]);
	json_text(j, "origin", site->key.origin == ORIGIN_KERNEL ? "kernel" : "user");
	put_place(j, site);
	json_number(j, "count", site->count);
	json_number(j, "rate", rounded(r->rate));
	json_number(j, "minute", site_rate_minute(&site->rate, s->now_ns));
	json_number(j, "threads", site->nthreads);
	if (site->more_threads)
		json_bool(j, "more_threads", true);
	put_last(j, s, site);
	json_close(j, '}');
}

static void put_watches(struct json *j, const struct site_stats *s)
{
	size_t i;

	json_open(j, "watches", '[');
	for (i = 0; i < s->nwatches; i++) {
		const struct watch_stat *w = &s->watch[i];

		json_open(j, NULL, '{');
		json_text(j, "watch", w->watch->e.name ? w->watch->e.name : "");
		json_number(j, "count", w->count);
		json_number(j, "rate", rounded(site_rate_now(&w->rate, s->begun_ns, s->now_ns)));
		json_number(j, "lost", w->lost);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void print_object(struct top *t)
{
	const struct site_stats *s = t->stats;
	struct json j = { 0 };
	const char *why;
	uint64_t missed = site_feed_missed(t->feed, &why);
	size_t i;

	if (!top_rows_make(t))
		return;
	json_open(&j, NULL, '{');
	json_text(&j, "type", "top");
	json_number(&j, "time_ns", s->now_ns);
	json_number(&j, "elapsed_ns", s->now_ns - s->begun_ns);
	json_text(&j, "state",
		  site_feed_state(t->feed) == FEED_ENDED       ? "ended"
		  : site_feed_state(t->feed) == FEED_CAUGHT_UP ? "recording"
							       : "reading");
	text_if(&j, "end", t->end);
	if (s->pid)
		json_number(&j, "pid", (uint64_t)s->pid);
	text_if(&j, "comm", s->comm);
	json_number(&j, "count", s->total);
	json_number(&j, "rate", rounded(site_rate_now(&s->rate, s->begun_ns, s->now_ns)));
	json_number(&j, "lost", s->lost);
	if (s->unlisted)
		json_number(&j, "unlisted", s->unlisted);
	if (missed)
		json_number(&j, "log_bytes_missed", missed);
	put_watches(&j, s);
	json_open(&j, "sites", '[');
	for (i = 0; i < t->nrows; i++)
		put_site(&j, s, &t->row[i]);
	json_close(&j, ']');
	json_close(&j, '}');
	json_end_line(&j, stdout);
	json_deinit(&j);
}

/* The loop */

static void top_lines_print(struct top *t, bool json, bool last)
{
	if (json)
		print_object(t);
	else
		print_table(t, last);
	fflush(stdout);
}

static void nap(uint64_t ns)
{
	struct timespec t = { .tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u) };

	nanosleep(&t, NULL);
}

struct wc_error *top_show_lines(struct top_show *o, bool json)
{
	struct top t = { .feed = o->feed, .stats = site_feed_stats(o->feed), .end = o->end };
	uint64_t due = monotonic_ns() + o->delay_ns;
	struct wc_error *err = NULL;

	while (!*o->stop && !ferror(stdout)) {
		err = site_feed_read(o->feed, READ_NS);
		if (err || site_feed_state(o->feed) == FEED_ENDED)
			break;
		top_show_session(o);
		if (monotonic_ns() >= due) {
			top_lines_print(&t, json, false);
			due = monotonic_ns() + o->delay_ns;
		}
		if (site_feed_state(o->feed) == FEED_CAUGHT_UP)
			nap(READ_NS);
	}
	top_deinit(&t);
	return err;
}

void top_show_last(struct top_show *o, bool json)
{
	struct top t = { .feed = o->feed, .stats = site_feed_stats(o->feed), .end = o->end };

	top_lines_print(&t, json, true);
	top_deinit(&t);
}
