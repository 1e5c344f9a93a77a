#include "watchctl/cli/top/top_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/error.h"
#include "watchctl/base/utf8.h"
#include "watchctl/cli/output/colour.h"
#include "watchctl/cli/output/output.h"
#include "watchctl/cli/output/ready_options.h"
#include "watchctl/cli/request/trace_choice.h"
#include "watchctl/cli/top/top_calls_impl.h"
#include "watchctl/cli/top/top_screen.h"
#include "watchctl/cli/top/top_session.h"
#include "watchctl/cli/top/top_words.h"
#include "watchctl/monitor/calls/call_trace.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/table/call_times.h"
#include "watchctl/view/table/site_stats_rate.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/words/view_words.h"

#define TICK_NS 50000000u    /* that a key waits at most */
#define ROWS_AFTER_SCREEN 20 /* of the table that stays on the terminal; without a screen, all */

const struct text_column top_calls_columns[CELLS] = {
	[CALL_TIMES_CALLS] = { "CALLS", true, 26, STYLE_WATCH },
	[CALL_TIMES_RATE] = { "RATE", true, 16, STYLE_WATCH },
	[CALL_TIMES_TOTAL] = { "TOTAL", true, 12, STYLE_DIM },
	[CALL_TIMES_SELF] = { "SELF", true, 12, STYLE_DIM },
	[CALL_TIMES_MEAN] = { "MEAN", true, 12, STYLE_DIM },
	[CALL_TIMES_P99] = { "P99", true, 12, STYLE_DIM },
	[CALL_TIMES_LONGEST] = { "LONGEST", true, 12, STYLE_DIM },
	[CELL_OPEN] = { "OPEN", true, 9, STYLE_DIM },
	[CELL_FUNCTION] = { "FUNCTION", false, 80, STYLE_PLACE },
	[CELL_MODULE] = { "MODULE", false, 32, STYLE_DIM },
};

static uint64_t now_of(const struct top_calls *t)
{
	return t->ended_ns ? t->ended_ns : monotonic_ns();
}

static uint64_t elapsed(const struct top_calls *t)
{
	return now_of(t) - t->begun_ns;
}

/* While it goes on, in the last two seconds; at the end, all the time. */
static double rate_of(const struct top_calls *t, const struct call_times_row *r)
{
	if (!t->ended_ns)
		return site_rate_now(&r->rate, t->begun_ns, now_of(t));
	return elapsed(t) ? (double)r->calls * 1e9 / (double)elapsed(t) : 0;
}

void top_calls_sort(struct top_calls *t)
{
	const bool all = t->ended_ns && t->by == CALL_TIMES_RATE;

	call_times_sort(&t->times, all ? CALL_TIMES_CALLS : t->by, t->begun_ns, now_of(t));
}

static const struct call_times_row *row_at(const struct top_calls *t, size_t i)
{
	return t->times.function[t->reversed ? t->times.nfunctions - 1 - i : i];
}

static void time_text(const struct call_times_row *r, uint64_t ns, char *buf, size_t cap)
{
	if (r->timed)
		text_duration(ns, buf, cap);
	else
		snprintf(buf, cap, "-");
}

static void function_text(const struct top_calls *t, const struct call_times_row *r, char *buf, size_t cap)
{
	char mark[TOP_WORD] = "";

	if (r->not_recorded)
		snprintf(mark, sizeof(mark), " (off: %" PRIu64 " not recorded)", r->not_recorded);
	else if (call_times_is_off(&t->times, r, t->counts.off))
		snprintf(mark, sizeof(mark), " (off)");
	utf8_clean(r->name, buf, cap - sizeof(mark));
	snprintf(buf + strlen(buf), sizeof(mark), "%s", mark);
}

void top_calls_cell(const void *rows, size_t row, int cell, char *buf, size_t cap)
{
	const struct top_calls *t = rows;
	const struct call_times_row *r = row_at(t, row);

	buf[0] = '\0';
	switch (cell) {
	case CALL_TIMES_CALLS:
		top_count_text(r->calls, buf, cap);
		break;
	case CALL_TIMES_RATE:
		top_rate_text(rate_of(t, r), buf, cap);
		break;
	case CALL_TIMES_TOTAL:
		time_text(r, r->total_ns, buf, cap);
		break;
	case CALL_TIMES_SELF:
		time_text(r, r->self_ns, buf, cap);
		break;
	case CALL_TIMES_MEAN:
		time_text(r, call_times_mean(r), buf, cap);
		break;
	case CALL_TIMES_P99:
		time_text(r, call_times_quantile(r, 990), buf, cap);
		break;
	case CALL_TIMES_LONGEST:
		time_text(r, r->longest_ns, buf, cap);
		break;
	case CELL_OPEN:
		top_count_text(r->open, buf, cap);
		break;
	case CELL_FUNCTION:
		function_text(t, r, buf, cap);
		break;
	default:
		utf8_clean(r->module ? text_base_name(r->module) : "", buf, cap);
		break;
	}
}

const char *top_calls_end(const struct top_calls *t)
{
	return t->end == SESSION_COUNT ? "the requested number of calls was reached"
				       : top_session_words(t->end);
}

void top_calls_head(const struct top_calls *t, char *buf, size_t cap)
{
	char count[TOP_WORD], time[TOP_WORD], comm[4 * COMM_LEN];

	top_count_text(t->times.calls, count, sizeof(count));
	top_elapsed_text(elapsed(t), time, sizeof(time));
	utf8_clean(*t->times.comm ? t->times.comm : "?", comm, sizeof(comm));
	snprintf(buf, cap, "%s/%d after %s: %s %s of %zu %s, %zu traced", comm, t->ask->pid, time, count,
		 top_plural(t->times.calls, "call", "calls"), t->times.nfunctions,
		 top_plural(t->times.nfunctions, "function", "functions"), t->counts.functions);
}

/* Without a screen */

static void print_table(struct top_calls *t, size_t most)
{
	struct print_options plain = { .width = terminal_width(STDOUT_FILENO) };
	scoped(printer_freep) struct printer *p = print_text_new(stdout, &plain);
	const size_t n = t->times.nfunctions;
	struct text_table table = { .column = top_calls_columns,
				    .ncolumns = CELLS,
				    .always = CELL_FUNCTION + 1,
				    .rows = t,
				    .nrows = n < most ? n : most,
				    .cell = top_calls_cell };
	char head[TOP_CALLS_CELL];

	if (!p)
		return;
	top_calls_head(t, head, sizeof(head));
	printf("%s\n", head);
	if (table.nrows)
		text_table(p, &table);
	if (table.nrows < n)
		printf("and %zu more\n", n - table.nrows);
	fflush(stdout);
}

static void print_row(const struct top_calls *t, const struct call_times_row *r, struct json *j)
{
	json_open(j, NULL, '{');
	json_text(j, "type", "call_function");
	json_text(j, "name", r->name);
	json_text_if(j, "module", r->module);
	json_number(j, "calls", r->calls);
	json_number(j, "timed", r->timed);
	json_number(j, "total_ns", r->total_ns);
	json_number(j, "self_ns", r->self_ns);
	json_number(j, "mean_ns", call_times_mean(r));
	json_number(j, "p99_ns", call_times_quantile(r, 990));
	json_number(j, "longest_ns", r->longest_ns);
	json_number(j, "open", r->open);
	if (call_times_is_off(&t->times, r, t->counts.off)) {
		json_bool(j, "off", true);
		json_number(j, "not_recorded", r->not_recorded);
	}
	json_close(j, '}');
}

static void print_objects(struct top_calls *t)
{
	struct json j = { 0 };

	for (size_t i = 0; i < t->times.nfunctions; i++) {
		print_row(t, row_at(t, i), &j);
		json_end_line(&j, stdout);
	}
	json_open(&j, NULL, '{');
	json_text(&j, "type", "call_summary");
	json_number(&j, "pid", (uint64_t)t->ask->pid);
	json_text_if(&j, "comm", t->times.comm);
	json_number(&j, "duration_ns", elapsed(t));
	json_text(&j, "end", top_calls_end(t));
	json_number(&j, "functions", t->counts.functions);
	json_number(&j, "refused", t->counts.entries_refused);
	json_number(&j, "called", t->counts.called);
	json_number(&j, "recorded", t->counts.recorded);
	json_number(&j, "lost", t->counts.lost);
	json_number(&j, "switched_off", t->counts.switched_off);
	json_number(&j, "functions_off", t->counts.off);
	json_close(&j, '}');
	json_end_line(&j, stdout);
	json_deinit(&j);
	fflush(stdout);
}

/* The trace */

static struct wc_error *take_event(void *ctx, const struct trace_event *e)
{
	return call_times_put(ctx, e);
}

static bool open_screen(const struct top_calls_ask *q)
{
	const char *why;

	if (q->json)
		return false;
	if (top_screen_open(colour_is_wanted(q->colour, STDOUT_FILENO), &why))
		return true;
	output_say(NULL, "one table at the end instead of a screen, because %s", why);
	return false;
}

static void sum_up(struct top_calls *t, bool screen)
{
	top_calls_sort(t);
	if (t->ask->json)
		print_objects(t);
	else
		print_table(t, screen ? ROWS_AFTER_SCREEN : SIZE_MAX);
	trace_say_counts(&t->counts);
}

static struct wc_error *show(struct top_calls *t)
{
	const struct top_calls_ask *q = t->ask;
	const bool screen = open_screen(q);
	const struct session_limits limits = { .count = q->count,
					       .time_ns = q->time_ns,
					       .stop = q->stop,
					       .tick = screen ? top_calls_tick : NULL,
					       .tick_ctx = t,
					       .tick_ns = TICK_NS };
	struct wc_error *err = call_trace_run(t->trace, &limits, &t->end), *close_err;

	t->ended_ns = monotonic_ns();
	close_err = call_trace_close(take_ptr(t->trace), &t->counts);
	if (screen && !err && !close_err && !*q->stop)
		top_calls_stay(t);
	top_screen_close();
	if (!err) {
		sum_up(t, screen);
		if (t->end == SESSION_EXECED)
			err = wc_error_new(
				WC_ETARGET,
				"the process has executed another program: its patches ended with the one before");
	}
	return wc_error_first(err, close_err);
}

struct wc_error *top_calls_run(const struct top_calls_ask *q)
{
	const struct call_trace_options o = { .pid = q->pid,
					      .selection = trace_choice_selection(q->choice),
					      .pending = q->pending,
					      .wait = q->wait,
					      .max_rate = q->choice->max_rate,
					      .buffer = trace_choice_buffer(),
					      .stop = q->stop };
	struct top_calls t = { .ask = q, .by = q->sort, .times.max_rate = q->choice->max_rate };
	struct wc_error *err = ready_check(q->ready);

	if (!err)
		err = call_trace_open(&o, (struct event_sink){ take_event, &t.times }, &t.trace);
	if (!err) {
		t.begun_ns = monotonic_ns();
		trace_say_begun(t.trace);
		ready_tell(q->ready);
		err = show(&t);
	}
	call_times_deinit(&t.times);
	return err;
}
