/* What sums a step recording up: how it was made, how each occurrence of its range ended, its functions. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/trace/event.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/step_totals.h"
#include "watchctl/view/event/step_words.h"

#define ROWS_MAX 100	   /* of functions: who wants all has the JSON form */
#define OCCURRENCES_MAX 20 /* listed one by one; more are counted by how they ended */
#define THREADS_MAX 20
#define FUNCTION_MAX 60

static void print_indented(struct printer *p, const char *what, const char *text)
{
	char clean[4 * CELL_TEXT];

	if (text && *text)
		fprintf(p->out, "    %s%s\n", what, utf8_clean(text, clean, sizeof(clean)));
}

void print_text_recording(void *ctx, const struct view_event *v)
{
	const struct recording_event *r = &v->raw->recording;
	struct printer *p = ctx;
	char range[CELL_TEXT], stepper[64], planner[64];

	utf8_clean(r->range && *r->range ? r->range : "all", range, sizeof(range));
	utf8_clean(r->stepper ? r->stepper : "", stepper, sizeof(stepper));
	utf8_clean(r->planner ? r->planner : "", planner, sizeof(planner));
	fputs("calls recorded ", p->out);
	text_cell(p, STYLE_WATCH, range, 0);
	fprintf(p->out, ", stepper %s, planner %s%s\n", stepper, planner,
		r->instructions ? ", each instruction too" : "");
	print_indented(p, "filters: ", r->filters);
}

/* "server/1234" */
static void thread_text(const char *comm, int32_t tid, char *buf, size_t cap)
{
	char clean[64];

	utf8_clean(*comm ? comm : "?", clean, sizeof(clean));
	snprintf(buf, cap, "%s/%d", clean, tid);
}

/* Of the whole program: no part of it occurs that could occur again. */
static bool is_whole(const struct step_totals *t)
{
	return t->noccurrences == 1 && t->range &&
	       (!strcmp(t->range, RECORDING_FROM_START) || !strcmp(t->range, RECORDING_ALL_CALLS));
}

static void print_occurrence(struct printer *p, const struct step_totals *t, const struct step_occurrence *o)
{
	char who[96], when[32], took[40], begun[256], ended[64], name[40] = "recorded";
	const char *how =
		o->what == RANGE_BEGIN ? "the log does not contain its end" : step_range_text(o->what);

	thread_text(o->comm, o->tid, who, sizeof(who));
	text_time(p, o->begin, when, sizeof(when));
	if (!is_whole(t))
		snprintf(name, sizeof(name), "occurrence %u", o->number);
	snprintf(begun, sizeof(begun), "%s: began %s in %s, %llu call%s,", name, when, who,
		 (unsigned long long)o->calls, o->calls == 1 ? "" : "s");
	ended[0] = '\0';
	if (o->what != RANGE_BEGIN) {
		text_duration(o->end.mono_ns > o->begin.mono_ns ? o->end.mono_ns - o->begin.mono_ns : 0, took,
			      sizeof(took));
		snprintf(ended, sizeof(ended), "ended after %s: ", took);
	}
	fprintf(p->out, "%s%s%s", begun,
		text_overflows(p, strlen(begun) + 1 + strlen(ended) + strlen(how)) ? "\n    " : " ", ended);
	text_cell(p, o->what == RANGE_STUCK || o->what == RANGE_BEGIN ? STYLE_ALERT : STYLE_DIM, how, 0);
	fputc('\n', p->out);
}

static void print_occurrences(struct printer *p, const struct step_totals *t)
{
	size_t n[RANGE_STOPPED + 1] = { 0 }, i;

	for (i = 0; i < t->noccurrences && i < OCCURRENCES_MAX; i++)
		print_occurrence(p, t, &t->occurrence[i]);
	if (t->noccurrences <= OCCURRENCES_MAX)
		return;
	for (i = 0; i < t->noccurrences; i++)
		n[t->occurrence[i].what]++;
	fprintf(p->out, "and %zu more; of all %zu:\n", t->noccurrences - OCCURRENCES_MAX, t->noccurrences);
	for (i = RANGE_BEGIN; i <= RANGE_STOPPED; i++)
		if (n[i])
			fprintf(p->out, "    %8zu  %s\n", n[i],
				i == RANGE_BEGIN ? "the log does not contain its end"
						 : step_range_text((enum range_what)i));
}

static void print_threads(struct printer *p, const struct step_totals *t)
{
	char who[96];
	size_t i;

	if (t->nthreads < 2)
		return;
	fprintf(p->out, "%zu threads:", t->nthreads);
	for (i = 0; i < t->nthreads && i < THREADS_MAX; i++) {
		thread_text(t->thread[i]->comm, t->thread[i]->tid, who, sizeof(who));
		fprintf(p->out, "%s %s %llu call%s", i ? "," : "", who,
			(unsigned long long)t->thread[i]->calls, t->thread[i]->calls == 1 ? "" : "s");
	}
	fputs(i < t->nthreads ? " ...\n" : "\n", p->out);
}

static void print_signals(struct printer *p, const struct step_totals *t)
{
	const char *sep = "signals: ";
	char name[32];
	int i;

	for (i = 0; i < 65; i++) {
		if (!t->signals[i])
			continue;
		step_signal_name(i, name, sizeof(name));
		fprintf(p->out, "%s%s %llu", sep, i ? name : "others", (unsigned long long)t->signals[i]);
		sep = ", ";
	}
	if (*sep == ',')
		fputc('\n', p->out);
}

enum {
	CELL_CALLS,
	CELL_FUNCTION,
	CELL_ERRORS,
	CELL_ENDED,
	CELL_TOTAL,
	CELL_SELF,
	CELL_MEAN,
	CELL_P99,
	CELL_LONGEST,
	CELL_SOURCE,
	CELLS
};

static const struct text_column columns[CELLS] = {
	[CELL_CALLS] = { "CALLS", true, 20, STYLE_WATCH },
	[CELL_FUNCTION] = { "FUNCTION", false, FUNCTION_MAX, STYLE_PLACE },
	[CELL_ERRORS] = { "ERRORS", true, 20, STYLE_ALERT },
	[CELL_ENDED] = { "NOT RETURNED", false, 40, STYLE_ALERT },
	[CELL_TOTAL] = { "TOTAL", true, 12, STYLE_DIM },
	[CELL_SELF] = { "SELF", true, 12, STYLE_DIM },
	[CELL_MEAN] = { "MEAN", true, 12, STYLE_DIM },
	[CELL_P99] = { "P99", true, 12, STYLE_DIM },
	[CELL_LONGEST] = { "LONGEST", true, 12, STYLE_DIM },
	[CELL_SOURCE] = { "SOURCE", false, 32, STYLE_DIM },
};

/* "exception 2, never 1" */
static void ended_text(const struct step_function_row *r, char *buf, size_t cap)
{
	size_t used = 0;
	int how;

	for (how = RETURN_EXCEPTION; how <= RETURN_UNKNOWN && used < cap; how++)
		if (r->ended[how])
			used += (size_t)snprintf(buf + used, cap - used, "%s%s %llu", used ? ", " : "",
						 step_how_name((enum return_how)how),
						 (unsigned long long)r->ended[how]);
}

static void cell_text(const void *rows, size_t row, int cell, char *buf, size_t cap)
{
	const struct step_function_row *r = ((const struct step_totals *)rows)->function[row];

	buf[0] = '\0';
	switch (cell) {
	case CELL_CALLS:
		snprintf(buf, cap, "%llu", (unsigned long long)r->calls);
		break;
	case CELL_FUNCTION:
		utf8_clean(r->function->text, buf, cap);
		text_shorten(buf, FUNCTION_MAX);
		break;
	case CELL_ERRORS:
		if (r->errors)
			snprintf(buf, cap, "%llu", (unsigned long long)r->errors);
		break;
	case CELL_ENDED:
		ended_text(r, buf, cap);
		break;
	case CELL_TOTAL:
		if (r->timed)
			text_duration(r->total_ns, buf, cap);
		break;
	case CELL_SELF:
		if (r->timed)
			text_duration(r->self_ns, buf, cap);
		break;
	case CELL_P99:
		if (r->timed)
			text_duration(step_row_quantile(r, 990), buf, cap);
		break;
	case CELL_MEAN:
		if (r->timed)
			text_duration(r->total_ns / r->timed, buf, cap);
		break;
	case CELL_LONGEST:
		if (r->timed)
			text_duration(r->max_ns, buf, cap);
		break;
	default:
		text_source(r->function->e.file ? r->function->e.file : r->function->e.module,
			    r->function->e.line, buf, cap);
	}
}

static void print_functions(struct printer *p, const struct step_totals *t)
{
	const size_t max = p->opt.functions_max ? p->opt.functions_max : ROWS_MAX;
	struct text_table table = {
		.column = columns,
		.ncolumns = CELLS,
		.always = CELL_ENDED + 1,
		.rows = t,
		.nrows = t->nfunctions < max ? t->nfunctions : max,
		.cell = cell_text,
	};
	const size_t more = t->nfunctions - table.nrows;

	if (!t->nfunctions)
		return;
	fputc('\n', p->out);
	text_table(p, &table);
	if (more)
		fprintf(p->out, "%zu more function%s not shown: --json has them all.\n", more,
			more == 1 ? " is" : "s are");
	fputs("Times include what the recording took.\n", p->out);
}

void print_text_steps(void *ctx, const struct step_totals *t)
{
	struct printer *p = ctx;

	print_text_step_flush(p);
	if (!t->reported)
		return;
	text_begin_ending(p);
	print_occurrences(p, t);
	fprintf(p->out, "%llu call%s of %zu function%s, %llu ended", (unsigned long long)t->calls,
		t->calls == 1 ? "" : "s", t->nfunctions, t->nfunctions == 1 ? "" : "s",
		(unsigned long long)t->ended);
	if (t->ended < t->calls)
		fprintf(p->out, ", %llu still open at the end", (unsigned long long)(t->calls - t->ended));
	if (t->steps)
		fprintf(p->out, ", %llu instructions", (unsigned long long)t->steps);
	fputc('\n', p->out);
	print_threads(p, t);
	print_signals(p, t);
	print_functions(p, t);
	if (t->incomplete)
		fputs("Memory ran out: the counts above are too low.\n", p->out);
	fputc('\n', p->out);
}
