/*
 * Both runs beside each other from the difference on: the calls of the thread in the order in which they begin, inside of
 * others too. Calls that belong together share a line.
 */
#include <inttypes.h>

#include "watchctl/base/error.h"
#include "watchctl/view/diff/html/diff_html.h"

#define AFTER_ROWS 200u
#define INDENT_MAX 8u  /* as diff.css has classes for */
#define DEPTH_MAX 200u /* parents counted */

struct after {
	const struct diff_threads *p;
	uint32_t a[AFTER_ROWS], b[AFTER_ROWS]; /* NO_CALL: the side has none in that row */
	size_t n;
	uint32_t least; /* depth of the outermost row */
};

static uint32_t depth_of(const struct diff_thread *t, uint32_t i)
{
	uint32_t n = 0;

	for (i = diff_parent(t, i); i != NO_CALL && n < DEPTH_MAX; i = diff_parent(t, i))
		n++;
	return n;
}

static uint32_t row_depth(const struct after *t, size_t row)
{
	return t->a[row] != NO_CALL ? depth_of(t->p->a, t->a[row]) : depth_of(t->p->b, t->b[row]);
}

static void add(struct after *t, uint32_t a, uint32_t b)
{
	uint32_t depth;

	t->a[t->n] = a;
	t->b[t->n] = b;
	depth = row_depth(t, t->n);
	if (!t->n || depth < t->least)
		t->least = depth;
	t->n++;
}

/* From @i and @j on: a call whose mate comes later on the other side waits for it. */
static void collect(struct after *t, uint64_t i, uint64_t j)
{
	uint64_t na = t->p->a->n, nb = t->p->b->n;

	while (t->n < AFTER_ROWS && (i < na || j < nb)) {
		uint32_t of_a = i < na ? diff_mate_of_a(t->p, (uint32_t)i) : NO_CALL;

		if (i < na && j < nb && of_a == j)
			add(t, (uint32_t)i++, (uint32_t)j++);
		else if (i < na && (of_a == NO_CALL || of_a < j || j >= nb))
			add(t, (uint32_t)i++, NO_CALL);
		else
			add(t, NO_CALL, (uint32_t)j++);
	}
}

static struct wc_error *put_row(struct diff_page *page, const struct after *t, size_t row)
{
	uint32_t depth = row_depth(t, row) - t->least;
	struct wc_error *err;
	char more[16];

	snprintf(more, sizeof(more), " d%u", depth < INDENT_MAX ? depth : INDENT_MAX);
	fprintf(page->out, "<div class=\"row %s\">", diff_page_class(t->p, t->a[row], t->b[row]));
	err = diff_page_cell(page, t->p, false, t->a[row], more);
	if (!err)
		err = diff_page_cell(page, t->p, true, t->b[row], more);
	fputs("</div>\n", page->out);
	return err;
}

struct wc_error *diff_page_after(struct diff_page *page, const struct diff_story *s)
{
	struct after t = { .p = &page->r->compare.pair[s->f.pair] };
	const struct diff_finding *f = &s->f;
	struct wc_error *err = NULL;
	size_t row;

	if (!t.p->a || !t.p->b || (f->a == NO_CALL && f->b == NO_CALL))
		return NULL;
	collect(&t, f->a != NO_CALL ? f->a : diff_page_beside(t.p, true, f->b),
		f->b != NO_CALL ? f->b : diff_page_beside(t.p, false, f->a));
	fputs("<details open><summary>both runs from there on</summary>\n<div class=\"after\"><div class=\"row head\">"
	      "<b>good</b><b>bad</b></div>\n",
	      page->out);
	for (row = 0; !err && row < t.n; row++)
		err = put_row(page, &t, row);
	if (t.n == AFTER_ROWS)
		fprintf(page->out, "<div class=more>... (the first %u calls from there on)</div>\n",
			AFTER_ROWS);
	fputs("</div></details>\n", page->out);
	return err;
}
