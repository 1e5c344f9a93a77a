#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/syscall_name.h"
#include "watchctl/base/utf8.h"
#include "watchctl/view/diff/diff_print.h"
#include "watchctl/view/diff/diff_text.h"
#include "watchctl/view/diff/diff_words.h"
#include "watchctl/view/event/step_words.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/words/view_words.h"

#define HALF_MIN 20u /* columns of each side; with less, the sides stand below each other */
#define HALF_MAX 70u
#define CHANGES_SHOWN 8u
#define ROWS_TEXT (WORDS_MAX + 64)

/* Lines */

static void heading(struct diff_text *t, const char *text)
{
	fputc('\n', t->out);
	text_cell(t->p, STYLE_WATCH, text, 0);
	fputc('\n', t->out);
}

/* Cut to the terminal, if there is one. */
static void line(struct diff_text *t, const char *indent, const char *text)
{
	char copy[ROWS_TEXT];

	snprintf(copy, sizeof(copy), "%s", text);
	if (t->width && t->width > strlen(indent) + 8)
		text_cut_middle(copy, t->width - strlen(indent));
	fprintf(t->out, "%s%s\n", indent, copy);
}

static size_t half(const struct diff_text *t, size_t used)
{
	size_t columns;

	if (!t->width)
		return HALF_MAX;
	if (t->width < used + 2 * HALF_MIN + 2)
		return 0;
	columns = (t->width - used - 2) / 2;
	return columns < HALF_MAX ? columns : HALF_MAX;
}

/* A name, and what it is on both sides. */
static void row(struct diff_text *t, bool differs, const char *name, size_t name_width, const char *good,
		const char *bad)
{
	size_t columns = half(t, 4 + name_width + 2);
	char a[ROWS_TEXT], b[ROWS_TEXT];

	snprintf(a, sizeof(a), "%s", good);
	snprintf(b, sizeof(b), "%s", bad);
	if (t->width && columns) {
		text_cut_middle(a, columns);
		text_cut_middle(b, columns);
	}
	fputs(differs ? "  * " : "    ", t->out);
	text_cell(t->p, differs ? STYLE_ALERT : STYLE_DIM, name, name_width);
	if (columns && (t->width || utf8_columns(a) <= columns)) {
		fputs("  ", t->out);
		text_cell(t->p, differs ? STYLE_READ : STYLE_DIM, a, columns);
		fputs("  ", t->out);
		text_cell(t->p, differs ? STYLE_WRITE : STYLE_DIM, b, 0);
		fputc('\n', t->out);
		return;
	}
	fprintf(t->out, "\n      good  %s\n      bad   %s\n", a, b);
}

/* Values */

static size_t name_columns(const struct diff_detail *d)
{
	size_t widest = strlen("result"), n;
	char name[300];
	uint32_t i;

	for (i = 0; i < d->nparams; i++) {
		n = d->param[i].name ? utf8_columns(utf8_clean(d->param[i].name, name, sizeof(name))) : 0;
		widest = n > widest ? n : widest;
	}
	return widest < 24 ? widest : 24;
}

/* Nothing changed there, or not to what differs. */
static const char *change_text(const struct memory_change *c, char *buf, size_t cap)
{
	return c ? utf8_clean(c->text ? c->text : "?", buf, cap) : "(not changed)";
}

/* Shows what each leaves in memory, where that differs: those that both have, and those of one. */
static void print_changes_of(struct diff_text *t, const struct diff_detail *a, const struct diff_detail *b,
			     size_t width)
{
	const struct diff_changes *both[] = { &b->changes, &a->changes };
	char left[WORDS_MAX], right[WORDS_MAX], name[300];
	size_t side, i, rows = 0;

	for (side = 0; side < 2; side++) {
		for (i = 0; i < both[side]->n && rows < CHANGES_SHOWN; i++) {
			const struct memory_change *c = &both[side]->v[i];
			const struct memory_change *other = diff_changes_find(both[!side], c);

			if (!c->differs || (side && other))
				continue;
			if (!rows++)
				line(t, "    ", "left in memory");
			row(t, true, utf8_clean(c->label, name, sizeof(name)), width,
			    change_text(side ? c : other, left, sizeof(left)),
			    change_text(side ? other : c, right, sizeof(right)));
		}
	}
}

static void print_values(struct diff_text *t, const struct diff_detail *a, const struct diff_detail *b)
{
	uint32_t n = a->nparams < b->nparams ? a->nparams : b->nparams, i;
	size_t width = name_columns(b);
	char left[WORDS_MAX], right[WORDS_MAX], name[300];

	row(t, false, "", width, "good", "bad");
	for (i = 0; i < n; i++) {
		const struct diff_value *va = &a->param[i], *vb = &b->param[i];

		diff_value_text(va, left, sizeof(left));
		diff_value_text(vb, right, sizeof(right));
		if (vb->name && *vb->name)
			utf8_clean(vb->name, name, sizeof(name));
		else
			snprintf(name, sizeof(name), "#%u", i + 1);
		row(t, va->differs || va->to_differs, name, width, left, right);
	}
	diff_result_text(a, left, sizeof(left));
	diff_result_text(b, right, sizeof(right));
	row(t, a->how_differs || a->error_differs || a->result.differs || a->result.to_differs, "result",
	    width, left, right);
	print_changes_of(t, a, b, width);
}

/* Stacks */

/* The texts of a stack, its own function first; NULL: no memory. */
static char **stack_lines(struct diff_side *s, const struct diff_detail *d, const struct diff_stack *stack,
			  size_t *ret)
{
	scoped(freep) struct diff_frame *frames = NULL;
	char text[CELL_TEXT * 2];
	char **lines;
	size_t n, i, k = 0;

	if (!diff_frames(s, stack, d->is_signal, &frames, &n))
		return NULL;
	lines = calloc(n + 2, sizeof(*lines));
	if (!lines)
		return NULL;
	if (!d->is_signal) {
		diff_function_text(d->function, text, sizeof(text));
		lines[k++] = strdup(text);
	}
	for (i = 0; i < n; i++) {
		diff_frame_text(&frames[i], text, sizeof(text));
		lines[k++] = strdup(text);
	}
	if (text_walk_end(stack->end)) {
		snprintf(text, sizeof(text), "... %s", text_walk_end(stack->end));
		lines[k++] = strdup(text);
	}
	*ret = k;
	return lines;
}

static void free_lines(char **lines, size_t n)
{
	size_t i;

	for (i = 0; lines && i < n; i++)
		free(lines[i]);
	free(lines);
}

static bool same_lines(char **a, size_t na, char **b, size_t nb)
{
	size_t i;

	for (i = 0; na == nb && i < na; i++)
		if (!a[i] || !b[i] || strcmp(a[i], b[i]) != 0)
			return false;
	return na == nb;
}

static void print_lines(struct diff_text *t, char **lines, size_t n)
{
	char text[CELL_TEXT * 2 + 32];
	size_t i;

	for (i = 0; i < n; i++) {
		snprintf(text, sizeof(text), "#%-2zu %s", i, lines[i] ? lines[i] : "?");
		line(t, "    ", text);
	}
}

static bool print_stacks(struct diff_text *t, const struct diff_story *s)
{
	size_t na = 0, nb = 0;
	char **a = s->has_a ? stack_lines(t->r->a, &s->a, &s->stack_a, &na) : NULL;
	char **b = s->has_b ? stack_lines(t->r->b, &s->b, &s->stack_b, &nb) : NULL;
	bool ok = (a || !s->has_a) && (b || !s->has_b);

	if (ok && a && b && same_lines(a, na, b, nb)) {
		line(t, "  ", "stack, the same in both");
		print_lines(t, b, nb);
	} else if (ok) {
		if (a)
			line(t, "  ", "stack of the good run");
		print_lines(t, a, na);
		if (b)
			line(t, "  ", "stack of the bad run");
		print_lines(t, b, nb);
	}
	free_lines(a, na);
	free_lines(b, nb);
	return ok;
}

/* Differences */

static void print_place(struct diff_text *t, const struct diff_story *s)
{
	char text[512];

	diff_place_text(t->r, s, text, sizeof(text));
	line(t, "  ", text);
	diff_numbers_text(s, text, sizeof(text));
	if (*text)
		line(t, "  ", text);
}

/* One, with the functions that it is inlined into. */
static bool print_branch(struct diff_text *t, struct diff_side *side, uint64_t branch)
{
	struct diff_stack at = { .v = &branch, .n = 1 };
	scoped(freep) struct diff_frame *frames = NULL;
	char text[CELL_TEXT * 2];
	size_t n, i;

	if (!diff_frames(side, &at, true, &frames, &n))
		return false;
	for (i = 0; i < n; i++) {
		diff_frame_text(&frames[i], text, sizeof(text));
		line(t, i ? "      in " : "    ", text);
	}
	return true;
}

/* Where the runs part, and which inlined functions may have made a difference. */
static bool print_parting(struct diff_text *t, const struct diff_story *s)
{
	const struct diff_parting *p = &s->parting;
	char text[CELL_TEXT * 2 + 32];
	size_t i;

	if (p->nbranches) {
		diff_parting_text(p, text, sizeof(text));
		line(t, "  ", text);
	}
	for (i = 0; i < p->nbranches; i++)
		if (!print_branch(t, p->in_good ? t->r->a : t->r->b, p->branch[i]))
			return false;
	if (p->ninlined)
		line(t, "  ", "inlined functions in the code between the last that agrees and this");
	for (i = 0; i < p->ninlined; i++) {
		diff_inlined_text(&p->inlined[i], text, sizeof(text));
		line(t, "    ", text);
	}
	return true;
}

static void print_before(struct diff_text *t, const struct diff_story *s)
{
	char text[ROWS_TEXT];
	size_t i;

	diff_no_before_text(t->r, s, text, sizeof(text));
	if (*text)
		line(t, "  ", text);
	if (!s->nbefore)
		return;
	line(t, "  ", "the last calls that agreed before");
	for (i = s->nbefore; i-- > 0;) {
		diff_call_text(&s->before[i], text, sizeof(text));
		line(t, "    ", text);
	}
}

static void print_input(struct diff_text *t, const struct diff_story *s)
{
	char a[ROWS_TEXT], b[ROWS_TEXT];

	if (s->is_input) {
		line(t, "  ", "this call is itself an input: the results returned by the system differ");
		return;
	}
	if (!s->has_input && (t->r->inputs.differs || !t->r->inputs.compared))
		return; /* it is above; or in a note */
	if (!s->has_input) {
		line(t, "  ",
		     "no input (the result of a system call, getenv or similar) differs shortly before it");
		return;
	}
	line(t, "  ", "the nearest input before it that differed");
	diff_call_text(&s->input_a, a, sizeof(a));
	diff_call_text(&s->input_b, b, sizeof(b));
	fputs("    good  ", t->out);
	line(t, "", a);
	fputs("    bad   ", t->out);
	line(t, "", b);
}

static void print_unmatched(struct diff_text *t, const struct diff_story *s)
{
	char text[ROWS_TEXT];

	if (s->has_a) {
		fputs("    good  ", t->out);
		diff_call_text(&s->a, text, sizeof(text));
		line(t, "", text);
	}
	if (s->has_b) {
		fputs("    bad   ", t->out);
		diff_call_text(&s->b, text, sizeof(text));
		line(t, "", text);
	}
}

static bool print_story(struct diff_text *t, const char *title, const struct diff_story *s)
{
	char text[ROWS_TEXT], headline[ROWS_TEXT - 100];

	diff_headline(t->r, s, headline, sizeof(headline));
	snprintf(text, sizeof(text), "%s: %s", title, headline);
	heading(t, text);
	print_place(t, s);
	if (s->unseen)
		line(t, "  ", "only pointers differ: they point to different allocations");
	if (s->f.kind == FINDING_CALLS || s->f.kind == FINDING_THREAD)
		print_unmatched(t, s);
	else
		print_values(t, &s->a, &s->b);
	if (!print_parting(t, s) || !print_stacks(t, s))
		return false;
	print_before(t, s);
	print_input(t, s);
	return true;
}

static bool print_stand(struct diff_text *t, const struct diff_stand *s)
{
	char text[200], number[40];
	const char *name = s->syscall >= 0 ? syscall_name(s->syscall) : NULL;
	scoped(freep) struct diff_frame *frames = NULL;
	char place[CELL_TEXT * 2], row_text[CELL_TEXT * 2 + 32];
	size_t n, i;

	snprintf(number, sizeof(number), "system call %d", s->syscall);
	snprintf(text, sizeof(text), "thread %u (tid %d)%s%s", s->number, s->thread->tid,
		 s->syscall >= 0 ? ", in " : ", running",
		 s->syscall < 0 ? ""
		 : name		? name
				: number);
	line(t, "  ", text);
	if (!diff_frames(t->r->b, &s->stack, true, &frames, &n))
		return false;
	for (i = 0; i < n; i++) {
		diff_frame_text(&frames[i], place, sizeof(place));
		snprintf(row_text, sizeof(row_text), "#%-2zu %s", i, place);
		line(t, "    ", row_text);
	}
	return true;
}

static bool print_stands(struct diff_text *t)
{
	size_t i;

	if (!t->r->nstand)
		return true;
	heading(t, "where the threads of the bad run are blocked");
	for (i = 0; i < t->r->nstand; i++)
		if (!print_stand(t, &t->r->stand[i]))
			return false;
	return true;
}

static void print_groups(struct diff_text *t)
{
	char text[ROWS_TEXT], what[600], name[300];
	size_t i, n = t->r->ngroups;

	if (t->r->nvalues + t->r->ncontrols < 2)
		return;
	heading(t, "all differences by function, ordered by their first occurrence");
	for (i = 0; i < n && i < t->groups; i++) {
		const struct diff_group *g = &t->r->group[i];

		diff_group_text(g, what, sizeof(what));
		snprintf(text, sizeof(text), "%8" PRIu64 "  %s: %s", g->count,
			 utf8_clean(g->function->e.name, name, sizeof(name)), what);
		line(t, "", text);
	}
	if (n > t->groups) {
		snprintf(text, sizeof(text), "%8s  and %zu more row%s (-n %zu prints all)", "", n - t->groups,
			 n - t->groups == 1 ? "" : "s", n);
		line(t, "", text);
	}
}

/* Both logs */

static void print_side(struct diff_text *t, const char *which, const struct diff_side *s)
{
	char text[ROWS_TEXT], command[300], ending[120] = "";
	size_t threads = s->nthreads / 2;

	utf8_clean(s->cmdline ? s->cmdline : "", command, sizeof(command));
	if (s->end)
		snprintf(ending, sizeof(ending), "; %s", step_range_text(s->end));
	snprintf(text, sizeof(text), "%-5s %s: %" PRIu64 " call%s in %zu thread%s%s%s%s%s", which, s->path,
		 s->calls, s->calls == 1 ? "" : "s", threads, threads == 1 ? "" : "s", ending,
		 command[0] ? " (" : "", command, command[0] ? ")" : "");
	line(t, "", text);
}

static void print_notes(struct diff_text *t)
{
	char text[ROWS_TEXT];
	size_t i;

	for (i = 0; i < t->r->nnotes; i++) {
		fputs("note: ", t->out);
		fprintf(t->out, "%s\n", utf8_clean(t->r->note[i], text, sizeof(text)));
	}
	if (t->r->learned)
		fprintf(t->out, "note: %" PRIu64 " mask%s learned from differences between the good runs\n",
			t->r->learned, t->r->learned == 1 ? " was" : "s were");
}

static void print_sum(struct diff_text *t)
{
	const struct diff_result *r = t->r;

	if (r->incomparable || (!r->a->calls && !r->b->calls))
		return;
	fprintf(t->out,
		"\n%" PRIu64 " difference%s: %" PRIu64 " in values, %" PRIu64 " in control; %" PRIu64
		" call%s\n",
		r->nvalues + r->ncontrols, r->nvalues + r->ncontrols == 1 ? "" : "s", r->nvalues,
		r->ncontrols, r->compare.agreed, r->compare.agreed == 1 ? " agrees" : "s agree");
	if (r->unread)
		fprintf(t->out,
			"%" PRIu64
			" of them %s not examined, because there are too many: some may be noise\n",
			r->unread, r->unread == 1 ? "was" : "were");
	if (r->compare.dropped)
		fprintf(t->out, "%" PRIu64 " more %s not listed\n", r->compare.dropped,
			r->compare.dropped == 1 ? "is" : "are");
	if (r->compare.weak)
		fprintf(t->out,
			"%" PRIu64
			" %s except for weak values, like registers and memory not yet written (--weak "
			"compares them)\n",
			r->compare.weak,
			r->compare.weak == 1 ? "call, including all calls in it, agrees"
					     : "calls, including all calls in them, agree");
}

static void print_doubts(struct diff_text *t)
{
	char text[1024];
	size_t i;

	if (diff_verdict(t->r) != DIFF_CANNOT_TELL)
		return;
	fputs("\ncannot tell whether the runs differ: ", t->out);
	for (i = 0; i < t->r->ndoubts; i++)
		fprintf(t->out, "%s%s", i ? "; " : "", utf8_clean(t->r->doubt[i], text, sizeof(text)));
	fputc('\n', t->out);
}

/* What the user did is said once, before what came of it. */
static void print_changes(struct diff_text *t)
{
	char text[ROWS_TEXT];
	size_t i;

	if (t->r->inputs.nchanges)
		heading(t, "started differently");
	for (i = 0; i < t->r->inputs.nchanges; i++) {
		diff_change_text(&t->r->inputs.change[i], text, sizeof(text));
		line(t, "  ", text);
	}
}

static void print_input_side(struct diff_text *t, const char *which, const struct diff_side *side,
			     const struct diff_input_side *s)
{
	const struct diff_input_difference *d = &t->r->inputs.first;
	char what[400], text[ROWS_TEXT], name[300] = "", number[48] = "";
	uint64_t ns = s->input->time_ns - side->first_ns;

	diff_input_side_text(d, s, what, sizeof(what));
	snprintf(text, sizeof(text), "%-4s  %s", which, what);
	line(t, "  ", text);
	if (strcmp(d->a.source->name, d->b.source->name) != 0)
		utf8_clean(s->source->name, name, sizeof(name));
	if (s->input->e.call)
		snprintf(number, sizeof(number), ", in call %" PRIu64, s->input->e.call);
	snprintf(text, sizeof(text), "      %s%s%s%s, %" PRIu64 ".%06" PRIu64 " s after its recording began",
		 syscall_name(s->input->e.syscall) ? syscall_name(s->input->e.syscall) : "?",
		 name[0] ? " of " : "", name, number, ns / 1000000000u, ns % 1000000000u / 1000);
	line(t, "  ", text);
}

static void print_first_input(struct diff_text *t)
{
	const struct diff_input_result *r = &t->r->inputs;
	char text[ROWS_TEXT], what[ROWS_TEXT - 100];

	if (!r->differs)
		return;
	diff_input_headline(&r->first, what, sizeof(what));
	snprintf(text, sizeof(text), "first difference of input: %s", what);
	heading(t, text);
	print_input_side(t, "good", t->r->a, &r->first.a);
	print_input_side(t, "bad", t->r->b, &r->first.b);
	if (r->sources > 1) {
		snprintf(text, sizeof(text), "%zu more input%s later", r->sources - 1,
			 r->sources == 2 ? " differs" : "s differ");
		line(t, "  ", text);
	}
}

struct wc_error *diff_print_text(struct diff_result *r, FILE *out, const struct diff_print_options *o)
{
	const struct print_options print = { .colour = o->colour, .width = o->width };
	scoped(printer_freep) struct printer *p = print_text_new(out, &print);
	struct diff_text t = { .r = r, .out = out, .p = p, .width = o->width, .groups = o->groups };

	if (!p)
		return &wc_enomem;
	print_side(&t, "good", r->a);
	print_side(&t, "bad", r->b);
	print_notes(&t);
	print_changes(&t);
	print_first_input(&t);
	if ((r->has_value && !print_story(&t, "first difference of values", &r->value)) ||
	    (r->has_control && !print_story(&t, "first difference of control", &r->control)) ||
	    !print_stands(&t))
		return &wc_enomem;
	print_groups(&t);
	diff_print_marks(&t);
	print_sum(&t);
	print_doubts(&t);
	return NULL;
}
