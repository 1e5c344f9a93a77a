/* One page without anything from elsewhere: no script, no font, no network. Its style is diff.css, built in. */
#include "watchctl/view/diff/html/diff_html.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "page_diff_assets.h"
#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/syscall_name.h"
#include "watchctl/base/utf8.h"
#include "watchctl/view/diff/diff_print.h"
#include "watchctl/view/diff/diff_words.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/event/step_words.h"

/* diff.css, as it is; and its checksum: nothing else may change how the page looks, and no script may run. */
extern const char page_diff_css[];

static void put_head(FILE *out)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>watchctl diff</title>\n"
	      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '" DIFF_STYLE_HASH
	      "'; base-uri 'none'; form-action 'none'\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<style>",
	      out);
	fputs(page_diff_css, out);
	fputs("</style></head><body>\n", out);
}

void diff_page_text(struct diff_page *p, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '<':
			fputs("&lt;", p->out);
			break;
		case '>':
			fputs("&gt;", p->out);
			break;
		case '&':
			fputs("&amp;", p->out);
			break;
		case '"':
			fputs("&quot;", p->out);
			break;
		default:
			fputc(*text, p->out);
		}
	}
}

static void clean_text(struct diff_page *p, const char *text)
{
	char clean[WORDS_MAX];

	diff_page_text(p, utf8_clean(text ? text : "", clean, sizeof(clean)));
}

static void cell(struct diff_page *p, const char *attributes, const char *text)
{
	fprintf(p->out, "<td %s>", attributes);
	diff_page_text(p, text);
	fputs("</td>", p->out);
}

static void row(struct diff_page *p, bool differs, const char *name, const char *good, const char *bad)
{
	fprintf(p->out, "<tr%s>", differs ? " class=differs" : "");
	cell(p, "class=k", name);
	cell(p, "class=v data-run=good", good);
	cell(p, "class=v data-run=bad", bad);
	fputs("</tr>\n", p->out);
}

static void values(struct diff_page *p, const struct diff_detail *a, const struct diff_detail *b)
{
	uint32_t n = a->nparams < b->nparams ? a->nparams : b->nparams, i;
	char left[WORDS_MAX], right[WORDS_MAX], name[300];

	fputs("<table class=\"pair named\"><tr><th></th><th>good</th><th>bad</th></tr>\n", p->out);
	for (i = 0; i < n; i++) {
		const struct diff_value *v = &a->param[i];

		if (v->name && *v->name)
			utf8_clean(v->name, name, sizeof(name));
		else
			snprintf(name, sizeof(name), "#%u", i + 1);
		diff_value_text(v, left, sizeof(left));
		diff_value_text(&b->param[i], right, sizeof(right));
		row(p, v->differs || v->to_differs, name, left, right);
	}
	diff_result_text(a, left, sizeof(left));
	diff_result_text(b, right, sizeof(right));
	row(p, a->how_differs || a->error_differs || a->result.differs || a->result.to_differs, "result",
	    left, right);
	fputs("</table>\n", p->out);
}

static bool stack(struct diff_page *p, struct diff_side *s, const struct diff_detail *d,
		  const struct diff_stack *k, const char *run)
{
	scoped(freep) struct diff_frame *frames = NULL;
	char text[CELL_TEXT * 2];
	size_t n, i;

	if (!diff_frames(s, k, d->is_signal, &frames, &n))
		return false;
	fprintf(p->out, "<td class=v data-run=%s><pre>", run);
	if (d->function->e.name)
		clean_text(p, d->function->e.name);
	for (i = 0; i < n; i++) {
		fputc('\n', p->out);
		diff_frame_text(&frames[i], text, sizeof(text));
		diff_page_text(p, text);
	}
	if (text_walk_end(k->end))
		fprintf(p->out, "\n... %s", text_walk_end(k->end));
	fputs("</pre></td>", p->out);
	return true;
}

static bool stacks(struct diff_page *p, const struct diff_story *s)
{
	bool ok = true;

	fputs("<details open><summary>stacks</summary><table class=pair><tr><th>good</th><th>bad</th></tr><tr>",
	      p->out);
	if (s->has_a)
		ok = stack(p, p->r->a, &s->a, &s->stack_a, "good");
	else
		fputs("<td></td>", p->out);
	if (ok && s->has_b)
		ok = stack(p, p->r->b, &s->b, &s->stack_b, "bad");
	else
		fputs("<td></td>", p->out);
	fputs("</tr></table></details>\n", p->out);
	return ok;
}

static void before(struct diff_page *p, const struct diff_story *s)
{
	char text[WORDS_MAX];
	size_t i;

	diff_no_before_text(p->r, s, text, sizeof(text));
	text[0] = (char)toupper((unsigned char)text[0]);
	if (*text) {
		fputs("<p>", p->out);
		diff_page_text(p, text);
		fputs(".</p>\n", p->out);
	}
	if (!s->nbefore)
		return;
	fputs("<details><summary>the last calls that agreed before</summary><pre>", p->out);
	for (i = s->nbefore; i-- > 0;) {
		diff_call_text(&s->before[i], text, sizeof(text));
		diff_page_text(p, text);
		fputc('\n', p->out);
	}
	fputs("</pre></details>\n", p->out);
}

static void input(struct diff_page *p, const struct diff_story *s)
{
	char a[WORDS_MAX], b[WORDS_MAX];

	if (s->is_input) {
		fputs("<p>This call is itself an input: the results returned by the system differ.</p>\n",
		      p->out);
	} else if (s->has_input) {
		diff_call_text(&s->input_a, a, sizeof(a));
		diff_call_text(&s->input_b, b, sizeof(b));
		fputs("<p>The nearest input before it that "
		      "differed:</p><table class=\"pair named\"><tr><th></th><th>good</th><th>bad</th></tr>",
		      p->out);
		row(p, true, "input", a, b);
		fputs("</table>\n", p->out);
	} else if (p->r->inputs.compared && !p->r->inputs.differs) {
		fputs("<p>No input (the result of a system call, getenv or similar) differs shortly before it.</p>\n",
		      p->out);
	}
}

static void unmatched(struct diff_page *p, const struct diff_story *s)
{
	char a[WORDS_MAX] = "", b[WORDS_MAX] = "";

	if (s->has_a)
		diff_call_text(&s->a, a, sizeof(a));
	if (s->has_b)
		diff_call_text(&s->b, b, sizeof(b));
	fputs("<table class=\"pair named\"><tr><th></th><th>good</th><th>bad</th></tr>", p->out);
	row(p, true, "call", a, b);
	fputs("</table>\n", p->out);
}

static void place(struct diff_page *p, const struct diff_story *s)
{
	char text[512];

	diff_place_text(p->r, s, text, sizeof(text));
	text[0] = 'I';
	fputs("<p>", p->out);
	diff_page_text(p, text);
	diff_numbers_text(s, text, sizeof(text));
	fputs(*text ? "; " : "", p->out);
	diff_page_text(p, text);
	fputs(".</p>\n", p->out);
}

static struct wc_error *story(struct diff_page *p, const struct diff_story *s)
{
	struct wc_error *err;

	place(p, s);
	if (s->f.kind == FINDING_CALLS || s->f.kind == FINDING_THREAD)
		unmatched(p, s);
	else
		values(p, &s->a, &s->b);
	if (!stacks(p, s))
		return &wc_enomem;
	before(p, s);
	input(p, s);
	fputs("<details open><summary>the calls around it</summary>\n", p->out);
	err = diff_page_tree(p, s);
	fputs("</details>\n", p->out);
	return err;
}

static struct wc_error *first(struct diff_page *p, const char *title, const struct diff_story *s)
{
	struct wc_error *err;
	char text[WORDS_MAX];

	diff_headline(p->r, s, text, sizeof(text));
	fprintf(p->out, "<h2>%s: ", title);
	diff_page_text(p, text);
	fputs("</h2>\n", p->out);
	err = story(p, s);
	return err ? err : diff_page_after(p, s);
}

static struct wc_error *group(struct diff_page *p, const struct diff_group *g)
{
	struct diff_story s = { 0 };
	struct wc_error *err = diff_group_story(p->r, g, &s);
	char text[WORDS_MAX];

	if (!err) {
		fprintf(p->out, "<details><summary>%" PRIu64 " &times; <code>", g->count);
		clean_text(p, g->function->e.name);
		fputs("</code>: ", p->out);
		diff_group_text(g, text, sizeof(text));
		diff_page_text(p, text);
		fputs("</summary>\n<div class=level>\n<p><b>The first of them: ", p->out);
		diff_headline(p->r, &s, text, sizeof(text));
		diff_page_text(p, text);
		fputs("</b></p>\n", p->out);
		err = story(p, &s);
		fputs("</div></details>\n", p->out);
	}
	diff_story_deinit(&s);
	return err;
}

static struct wc_error *groups(struct diff_page *p, size_t max)
{
	struct wc_error *err = NULL;
	size_t i;

	if (!p->r->ngroups)
		return NULL;
	fputs("<h2>all differences by function, ordered by their first occurrence</h2>\n", p->out);
	for (i = 0; !err && i < p->r->ngroups && i < max; i++)
		err = group(p, &p->r->group[i]);
	if (p->r->ngroups > max)
		fprintf(p->out, "<p class=more>and %zu more row%s (-n %zu writes all)</p>\n",
			p->r->ngroups - max, p->r->ngroups - max == 1 ? "" : "s", p->r->ngroups);
	return err;
}

static bool stand(struct diff_page *p, const struct diff_stand *s)
{
	scoped(freep) struct diff_frame *frames = NULL;
	const char *name = s->syscall >= 0 ? syscall_name(s->syscall) : NULL;
	char text[CELL_TEXT * 2];
	size_t n, i;

	if (!diff_frames(p->r->b, &s->stack, true, &frames, &n))
		return false;
	fprintf(p->out, "<details open><summary>thread %u", s->number);
	if (name)
		fprintf(p->out, ", in %s", name);
	fputs("</summary><pre>", p->out);
	for (i = 0; i < n; i++) {
		diff_frame_text(&frames[i], text, sizeof(text));
		diff_page_text(p, text);
		fputc('\n', p->out);
	}
	fputs("</pre></details>\n", p->out);
	return true;
}

static bool stands(struct diff_page *p)
{
	size_t i;

	if (p->r->nstand)
		fputs("<h2>where the threads of the bad run are blocked</h2>\n", p->out);
	for (i = 0; i < p->r->nstand; i++)
		if (!stand(p, &p->r->stand[i]))
			return false;
	return true;
}

/* What the user did is said once, before what came of it. */
static void changes(struct diff_page *p)
{
	const struct diff_input_result *r = &p->r->inputs;
	char text[WORDS_MAX];
	size_t i;

	if (!r->nchanges)
		return;
	fputs("<h2>Started differently</h2>\n<ul class=changes>\n", p->out);
	for (i = 0; i < r->nchanges; i++) {
		diff_change_text(&r->change[i], text, sizeof(text));
		fputs("<li>", p->out);
		diff_page_text(p, text);
		fputs("</li>\n", p->out);
	}
	fputs("</ul>\n", p->out);
}

/* Of one side: the call that brought it, and from where. */
static void input_origin(const struct diff_side *side, const struct diff_input_side *s, char *buf, size_t cap)
{
	const char *call = syscall_name(s->input->e.syscall);
	uint64_t ns = s->input->time_ns - side->first_ns;
	char name[300], number[48] = "";

	if (s->input->e.call)
		snprintf(number, sizeof(number), " in call %" PRIu64, s->input->e.call);
	snprintf(buf, cap, "%s of %s%s, %" PRIu64 ".%06" PRIu64 " s after the recording began",
		 call ? call : "?", utf8_clean(s->source->name, name, sizeof(name)), number, ns / 1000000000u,
		 ns % 1000000000u / 1000);
}

static void first_input(struct diff_page *p)
{
	const struct diff_input_result *r = &p->r->inputs;
	char text[WORDS_MAX], a[WORDS_MAX], b[WORDS_MAX];

	if (!r->differs)
		return;
	diff_input_headline(&r->first, text, sizeof(text));
	fputs("<h2>First difference of input: ", p->out);
	diff_page_text(p, text);
	fputs("</h2>\n<table class=\"pair named\"><tr><th></th><th>good</th><th>bad</th></tr>", p->out);
	diff_input_side_text(&r->first, &r->first.a, a, sizeof(a));
	diff_input_side_text(&r->first, &r->first.b, b, sizeof(b));
	row(p, true, "input", a, b);
	input_origin(p->r->a, &r->first.a, a, sizeof(a));
	input_origin(p->r->b, &r->first.b, b, sizeof(b));
	row(p, false, "from", a, b);
	fputs("</table>\n", p->out);
	if (r->sources > 1)
		fprintf(p->out, "<p>%zu more input%s later.</p>\n", r->sources - 1,
			r->sources == 2 ? " differs" : "s differ");
}

static void side(struct diff_page *p, const char *which, const struct diff_side *s)
{
	fprintf(p->out, "<div class=\"side of-%s\"><b>%s</b> <code>", which, which);
	clean_text(p, s->path);
	fputs("</code> ", p->out);
	clean_text(p, s->cmdline);
	fprintf(p->out, " <small>%" PRIu64 " call%s, %zu thread%s", s->calls, s->calls == 1 ? "" : "s",
		s->nthreads / 2, s->nthreads / 2 == 1 ? "" : "s");
	if (s->end) {
		fputs("; ", p->out);
		clean_text(p, step_range_text(s->end));
	}
	fputs("</small></div>\n", p->out);
}

static void beginning(struct diff_page *p)
{
	size_t i;

	put_head(p->out);
	fputs("<h1>watchctl diff</h1>\n", p->out);
	side(p, "good", p->r->a);
	side(p, "bad", p->r->b);
	for (i = 0; i < p->r->nnotes; i++) {
		fputs("<p class=note>", p->out);
		clean_text(p, p->r->note[i]);
		fputs("</p>\n", p->out);
	}
	fprintf(p->out,
		"<p>%" PRIu64 " difference%s in values, %" PRIu64 " in control; %" PRIu64 " call%s.</p>\n",
		p->r->nvalues, p->r->nvalues == 1 ? "" : "s", p->r->ncontrols, p->r->compare.agreed,
		p->r->compare.agreed == 1 ? " agrees" : "s agree");
	for (i = 0; diff_verdict(p->r) == DIFF_CANNOT_TELL && i < p->r->ndoubts; i++) {
		fputs(i ? "; " : "<p class=note>Cannot tell whether the runs differ: ", p->out);
		clean_text(p, p->r->doubt[i]);
		fputs(i + 1 == p->r->ndoubts ? ".</p>\n" : "", p->out);
	}
}

static void mark(struct diff_page *p, const struct diff_mark *m, const char *run)
{
	char **text = p->r->marks.text;

	fprintf(p->out, "<td class=v data-run=%s>", run);
	if (m) {
		clean_text(p, text[m->place]);
		fputs(" ", p->out);
		clean_text(p, text[m->value]);
		fputs("<br>thread ", p->out);
		clean_text(p, text[m->thread]);
		fputs("<pre>", p->out);
		diff_page_text(p, text[m->stack]);
		fputs("</pre>", p->out);
	}
	fputs("</td>", p->out);
}

static void stream(struct diff_page *p, const struct diff_stream *s)
{
	size_t i;

	fputs("<h2>", p->out);
	fputs(s->is_tag ? "captures of " : "accesses to ", p->out);
	clean_text(p, s->name);
	fprintf(p->out,
		"</h2>\n<p>%zu in the good run, %zu in the bad run; %" PRIu64
		" only in the good run, %" PRIu64 " only in the bad run, %" PRIu64
		" with another value.</p>\n",
		s->na, s->nb, s->only_a, s->only_b, s->values);
	if (!s->has_first)
		return;
	fputs("<table class=pair><tr><th>first difference: good</th><th>bad</th></tr><tr>", p->out);
	mark(p, s->first_a == NO_MATE ? NULL : &s->a[s->first_a], "good");
	mark(p, s->first_b == NO_MATE ? NULL : &s->b[s->first_b], "bad");
	fputs("</tr></table>\n<table><tr><th>good</th><th>bad</th><th>where</th></tr>\n", p->out);
	for (i = 0; i < s->nrows; i++) {
		fprintf(p->out,
			"<tr><td class=n>%" PRIu64 "</td><td class=n>%" PRIu64 "</td><td class=v><pre>",
			s->row[i].a, s->row[i].b);
		diff_page_text(p, p->r->marks.text[s->row[i].place]);
		fputs("</pre></td></tr>\n", p->out);
	}
	fputs("</table>\n", p->out);
}

struct wc_error *diff_print_html(struct diff_result *r, FILE *out, const struct diff_print_options *o)
{
	struct diff_page p = { .r = r, .out = out };
	struct wc_error *err = NULL;
	size_t i;

	beginning(&p);
	changes(&p);
	first_input(&p);
	if (r->has_value)
		err = first(&p, "First difference of values", &r->value);
	if (!err && r->has_control)
		err = first(&p, "First difference of control", &r->control);
	if (!err && !stands(&p))
		err = &wc_enomem;
	if (!err)
		err = groups(&p, o->groups);
	for (i = 0; !err && i < r->marks.n; i++)
		stream(&p, &r->marks.v[i]);
	fputs("</body></html>\n", out);
	return err;
}
