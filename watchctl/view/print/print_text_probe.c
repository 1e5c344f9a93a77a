/* The table by site of probes. */
#include "watchctl/base/utf8.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/table/probe_totals.h"
#include "watchctl/view/event/probe_text.h"
#include "watchctl/view/words/view_words.h"

#define ROWS_MAX 100 /* a pattern may fit thousands of places: who wants all has the JSON form */
#define ROWS_FEW 20  /* so many are shown although they were not reached */

enum {
	CELL_COUNT,
	CELL_LOST,
	CELL_PROBE,
	CELL_PLACE,
	CELL_SOURCE,
	CELL_THREADS,
	CELL_TACTIC,
	CELL_INSN,
	CELL_WHY,
	CELLS
};

static const struct text_column columns[CELLS] = {
	[CELL_COUNT] = { "COUNT", true, 20, STYLE_WATCH },
	[CELL_LOST] = { "LOST", true, 20, STYLE_ALERT },
	[CELL_PROBE] = { "PROBE", false, 48, STYLE_WATCH },
	[CELL_PLACE] = { "SITE", false, 48, STYLE_PLACE },
	[CELL_SOURCE] = { "SOURCE", false, 32, STYLE_DIM },
	[CELL_THREADS] = { "THREADS", true, 8, STYLE_DIM },
	[CELL_TACTIC] = { "TACTIC", false, 8, STYLE_DIM },
	[CELL_INSN] = { "INSTRUCTION", false, 40, STYLE_DIM },
	[CELL_WHY] = { "REFUSED BECAUSE", false, 0, STYLE_ALERT },
};

static void place_text(const struct view_frame *f, char *buf, size_t cap)
{
	if (f->ip)
		text_place(f->module, f->module_offset, f->function, f->offset, f->ip, buf, cap);
	else
		snprintf(buf, cap, "-");
}

static void cell_text(const void *rows, size_t row, int cell, char *buf, size_t cap)
{
	const struct probe_totals *t = rows;
	const struct probe_row *r = t->v[row];
	const struct view_probe_site *s = r->site;

	buf[0] = '\0';
	switch (cell) {
	case CELL_COUNT:
		snprintf(buf, cap, "%llu", (unsigned long long)probe_row_count(t, r));
		break;
	case CELL_LOST:
		if (probe_row_has_total(t, r))
			snprintf(buf, cap, "%llu", (unsigned long long)s->lost);
		break;
	case CELL_PROBE:
		utf8_clean(s->probe, buf, cap);
		break;
	case CELL_PLACE:
		place_text(&s->frame, buf, cap);
		break;
	case CELL_SOURCE:
		text_source(s->source.file, s->source.line, buf, cap);
		break;
	case CELL_THREADS:
		if (r->events) /* a probe that records nothing says of nobody */
			snprintf(buf, cap, "%zu", r->tids.n);
		else
			snprintf(buf, cap, "-");
		break;
	case CELL_TACTIC:
		snprintf(buf, cap, "%s", s->known ? probe_tactic_name(s->tactic) : "");
		break;
	case CELL_INSN:
		utf8_clean(s->insn ? s->insn : "", buf, cap);
		break;
	case CELL_WHY:
		if (s->known && s->tactic == PROBE_TACTIC_REFUSED)
			utf8_clean(s->why ? s->why : "no reason given", buf, cap);
		break;
	}
}

static enum style probe_style(const void *rows, size_t row, int cell)
{
	const struct probe_totals *t = rows;

	return cell == CELL_LOST && !t->v[row]->site->lost ? STYLE_DIM : columns[cell].style;
}

/* The rows are in the order of their counts. */
static size_t rows_reached(const struct probe_totals *t)
{
	size_t n = 0;

	while (n < t->n && probe_row_count(t, t->v[n]))
		n++;
	return n;
}

void print_text_probes(void *ctx, const struct probe_totals *probes)
{
	struct printer *p = ctx;
	struct text_table t = {
		.column = columns,
		.ncolumns = CELL_WHY,
		.always = CELL_PLACE + 1,
		.rows = probes,
		.nrows = probes->n,
		.cell = cell_text,
		.style = probe_style,
	};
	const size_t reached = rows_reached(probes);
	size_t i;

	if (!probes->n)
		return;
	/* Of many, those that were reached say what happened. */
	if (probes->n > ROWS_FEW)
		t.nrows = reached < ROWS_FEW ? ROWS_FEW : reached < ROWS_MAX ? reached : ROWS_MAX;
	for (i = 0; i < t.nrows; i++)
		if (probes->v[i]->site->known && probes->v[i]->site->tactic == PROBE_TACTIC_REFUSED)
			t.ncolumns = CELLS;
	text_begin_ending(p);
	text_table(p, &t);
	if (probes->n > t.nrows)
		fprintf(p->out, "%zu more sites are not shown, %zu of them reached: --json has them all.\n",
			probes->n - t.nrows, reached > t.nrows ? reached - t.nrows : 0);
	if (probes->incomplete)
		fputs("Memory ran out: the counts above are too low.\n", p->out);
	fputc('\n', p->out);
}
