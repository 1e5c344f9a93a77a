/*
 * The calls that are open where the difference is, each with some of the calls beside it; two columns, and a
 * line for calls that belong together. What lies inside of calls that agree is not listed, but counted.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/diff/html/diff_html.h"
#include "watchctl/view/diff/diff_words.h"

#define BESIDE 4u /* calls shown on each side of one */
#define DEPTH_MAX 200u

struct tree {
	struct diff_page *page;
	const struct diff_threads *p;
	/* From the call of the difference outwards; NO_CALL where a side has none. */
	uint32_t *a, *b;
	size_t n;
};

/* Some calls that one call has made. */
struct window {
	uint32_t v[2 * BESIDE + 1];
	uint32_t n;
	bool more_before, more_behind;
};

static uint32_t mate(const struct tree *t, bool is_b, uint32_t i)
{
	return is_b ? diff_mate_of(t->p, i) : diff_mate_of_a(t->p, i);
}

static void shift(struct window *w, uint32_t i)
{
	uint32_t k;

	if (w->n < BESIDE) {
		w->v[w->n++] = i;
		return;
	}
	w->more_before = true;
	for (k = 1; k < BESIDE; k++)
		w->v[k - 1] = w->v[k];
	w->v[BESIDE - 1] = i;
}

/* The calls around @focus that @parent has made; without a focus, those around where it would stand. */
static void diff_html_tree_fill(const struct diff_thread *t, uint32_t parent, uint32_t focus,
				uint64_t stands_at, struct window *w)
{
	uint32_t i = parent == NO_CALL ? 0 : parent + 1;
	uint32_t end = parent == NO_CALL ? (uint32_t)t->n : diff_next(t, parent), behind = 0;

	*w = (struct window){ 0 };
	for (; i < end && (focus != NO_CALL ? i < focus : i < stands_at); i = diff_next(t, i))
		shift(w, i);
	for (; i < end && behind <= BESIDE; i = diff_next(t, i), behind++) {
		if (behind == BESIDE + (focus != NO_CALL)) {
			w->more_behind = true;
			break;
		}
		w->v[w->n++] = i;
	}
}

uint64_t diff_page_beside(const struct diff_threads *p, bool is_b, uint32_t focus)
{
	uint32_t i, other;

	for (i = focus; i > 0; i--) {
		other = is_b ? diff_mate_of(p, i - 1) : diff_mate_of_a(p, i - 1);
		if (other != NO_CALL)
			return (uint64_t)other + 1;
	}
	return 0;
}

struct wc_error *diff_page_cell(struct diff_page *page, const struct diff_threads *p, bool is_b, uint32_t i,
				const char *more)
{
	struct diff_thread *thread = is_b ? p->b : p->a;
	struct diff_detail d = { 0 };
	char text[WORDS_MAX];
	struct wc_error *err;

	fprintf(page->out, "<span class=\"cell%s\" data-run=%s>", more, is_b ? "bad" : "good");
	if (i != NO_CALL) {
		err = diff_detail_read(is_b ? page->r->b : page->r->a, thread, i, &d);
		if (err)
			return err;
		if (!diff_detail_texts(&d)) {
			diff_detail_deinit(&d);
			return &wc_enomem;
		}
		diff_call_text(&d, text, sizeof(text));
		diff_detail_deinit(&d);
		diff_page_text(page, text);
		if (diff_size(thread, i) > 1)
			fprintf(page->out, " <small>+%u call%s</small>", diff_size(thread, i) - 1,
				diff_size(thread, i) == 2 ? "" : "s");
	}
	fputs("</span>", page->out);
	return NULL;
}

const char *diff_page_class(const struct diff_threads *p, uint32_t a, uint32_t b)
{
	const struct diff_call *ca, *cb;

	if (a == NO_CALL)
		return "bad";
	if (b == NO_CALL)
		return "good";
	ca = &p->a->call[a];
	cb = &p->b->call[b];
	if (ca->params != cb->params || ca->result != cb->result)
		return "differs";
	return diff_exact(p->a, a) != diff_exact(p->b, b) ? "inside" : "same";
}

static struct wc_error *level(struct tree *t, size_t depth);

static struct wc_error *row(struct tree *t, uint32_t a, uint32_t b, size_t depth)
{
	bool on_path = depth > 0 && a == t->a[depth] && b == t->b[depth];
	FILE *out = t->page->out;
	struct wc_error *err;

	fprintf(out, on_path ? "<details open><summary class=\"row %s\">" : "<div class=\"row %s\">",
		diff_page_class(t->p, a, b));
	err = diff_page_cell(t->page, t->p, false, a, "");
	if (!err)
		err = diff_page_cell(t->page, t->p, true, b, "");
	fputs(on_path ? "</summary>\n<div class=level>\n" : "</div>\n", out);
	if (!err && on_path)
		err = level(t, depth - 1);
	if (on_path)
		fputs("</div></details>\n", out);
	return err;
}

static struct wc_error *rows(struct tree *t, const struct window *a, const struct window *b, size_t depth)
{
	struct wc_error *err = NULL;
	uint32_t i = 0, j = 0;

	while (!err && (i < a->n || j < b->n)) {
		uint32_t of_a = i < a->n ? mate(t, false, a->v[i]) : NO_CALL;

		if (i < a->n && j < b->n && of_a == b->v[j])
			err = row(t, a->v[i++], b->v[j++], depth);
		else if (i < a->n && (of_a == NO_CALL || j == b->n || of_a < b->v[j]))
			err = row(t, a->v[i++], NO_CALL, depth);
		else
			err = row(t, NO_CALL, b->v[j++], depth);
	}
	return err;
}

/* A call whose mate is not shown is not one without a mate. */
static void drop_split(const struct tree *t, struct window *a, struct window *b)
{
	uint32_t i, k, n = 0;

	for (i = 0; i < a->n; i++) {
		uint32_t m = mate(t, false, a->v[i]);
		bool shown = m == NO_CALL;

		for (k = 0; k < b->n; k++)
			shown |= b->v[k] == m;
		if (shown)
			a->v[n++] = a->v[i];
	}
	a->n = n;
	for (i = n = 0; i < b->n; i++) {
		uint32_t m = mate(t, true, b->v[i]);
		bool shown = m == NO_CALL;

		for (k = 0; k < a->n; k++)
			shown |= a->v[k] == m;
		if (shown)
			b->v[n++] = b->v[i];
	}
	b->n = n;
}

/* The calls at that depth of the path: 0 is where the difference is. */
static struct wc_error *level(struct tree *t, size_t depth)
{
	bool top = depth + 1 == t->n;
	uint32_t in_a = top ? NO_CALL : t->a[depth + 1], in_b = top ? NO_CALL : t->b[depth + 1];
	uint32_t a = t->a[depth], b = t->b[depth];
	struct window wa, wb;
	struct wc_error *err;

	diff_html_tree_fill(t->p->a, in_a, a, b == NO_CALL ? 0 : diff_page_beside(t->p, true, b), &wa);
	diff_html_tree_fill(t->p->b, in_b, b, a == NO_CALL ? 0 : diff_page_beside(t->p, false, a), &wb);
	drop_split(t, &wa, &wb);
	if (wa.more_before || wb.more_before)
		fputs("<div class=more>...</div>\n", t->page->out);
	err = rows(t, &wa, &wb, depth);
	if (wa.more_behind || wb.more_behind)
		fputs("<div class=more>...</div>\n", t->page->out);
	return err;
}

/* The calls around both, from the inside out. */
static bool find_path(struct tree *t, const struct diff_finding *f, uint32_t **a, uint32_t **b)
{
	uint32_t i = f->a, j = f->b;
	size_t cap_a = 0, cap_b = 0, nb = 0;

	for (;;) {
		if (!vec_push(*a, t->n, cap_a, i) || !vec_push(*b, nb, cap_b, j))
			return false;
		if (t->n == 1 && (f->kind == FINDING_CALLS || i == NO_CALL || j == NO_CALL)) {
			i = f->in_a;
			j = f->in_b;
		} else {
			i = diff_parent(t->p->a, i);
			j = diff_parent(t->p->b, j);
		}
		if (i == NO_CALL || j == NO_CALL || t->n == DEPTH_MAX)
			return true;
	}
}

struct wc_error *diff_page_tree(struct diff_page *page, const struct diff_story *s)
{
	struct tree t = { .page = page, .p = &page->r->compare.pair[s->f.pair] };
	scoped(freep) uint32_t *a = NULL, *b = NULL;
	struct wc_error *err;

	if (!t.p->a || !t.p->b)
		return NULL;
	if (!find_path(&t, &s->f, &a, &b))
		return &wc_enomem;
	t.a = a;
	t.b = b;
	fputs("<div class=tree><div class=\"row head\"><span class=cell><b>good</b></span><span "
	      "class=cell><b>bad</b></span></div>\n",
	      page->out);
	err = level(&t, t.n - 1);
	fputs("</div>\n", page->out);
	return err;
}
