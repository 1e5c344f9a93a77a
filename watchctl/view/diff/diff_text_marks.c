/* Differences of watch logs and tag logs. */
#include <inttypes.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/view/diff/diff_text.h"

static const char *text_of(const struct diff_text *t, uint32_t index)
{
	return t->r->marks.text[index];
}

static void print_stack(struct diff_text *t, const char *text)
{
	while (*text) {
		int n = (int)strcspn(text, "\n");

		fprintf(t->out, "        %.*s\n", n, text);
		text += n + (text[n] == '\n');
	}
}

static void print_mark(struct diff_text *t, const char *which, const struct diff_stream *s,
		       const struct diff_mark *m)
{
	const char *value = text_of(t, m->value);

	fprintf(t->out, "    %-5s %s%s%s, thread %s\n", which, text_of(t, m->place), *value ? ", " : "",
		value, text_of(t, m->thread));
	print_stack(t, text_of(t, m->stack));
}

static void print_first(struct diff_text *t, const struct diff_stream *s)
{
	const struct diff_mark *a = s->first_a == NO_MATE ? NULL : &s->a[s->first_a];
	const struct diff_mark *b = s->first_b == NO_MATE ? NULL : &s->b[s->first_b];
	const char *what = s->is_tag ? "capture" : "access";

	if (a && b && a->item.key == b->item.key)
		fprintf(t->out, "  first difference: another value\n");
	else if (a && b)
		fprintf(t->out, "  first difference: another %s\n", what);
	else
		fprintf(t->out, "  first difference: %s %s that the %s run does not have\n",
			s->is_tag ? "a" : "an", what, b ? "good" : "bad");
	if (a)
		print_mark(t, "good", s, a);
	if (b)
		print_mark(t, "bad", s, b);
}

static void print_rows(struct diff_text *t, const struct diff_stream *s)
{
	size_t i;

	if (!s->nrows)
		return;
	fprintf(t->out, "  %10s %10s  %s\n", "good", "bad",
		s->is_tag ? "stacks whose counts differ" : "places whose counts differ");
	for (i = 0; i < s->nrows && i < t->groups; i++) {
		const char *text = text_of(t, s->row[i].place);
		int first = (int)strcspn(text, "\n");

		fprintf(t->out, "  %10" PRIu64 " %10" PRIu64 "  %.*s\n", s->row[i].a, s->row[i].b, first,
			text);
		text += first;
		while (*text) {
			int n = (int)strcspn(++text, "\n");

			fprintf(t->out, "  %10s %10s  %.*s\n", "", "", n, text);
			text += n;
		}
	}
	if (s->nrows > t->groups)
		fprintf(t->out, "  and %zu more\n", s->nrows - t->groups);
}

void diff_print_marks(struct diff_text *t)
{
	const struct diff_marks *m = &t->r->marks;
	char name[300];
	size_t i;

	for (i = 0; i < m->n; i++) {
		const struct diff_stream *s = &m->v[i];

		fprintf(t->out, "\n%s %s: %zu in the good run, %zu in the bad run; ",
			s->is_tag ? "captures of" : "accesses to", utf8_clean(s->name, name, sizeof(name)),
			s->na, s->nb);
		if (!s->has_first) {
			fputs("they are the same\n", t->out);
			continue;
		}
		fprintf(t->out,
			"%" PRIu64 " only in the good run, %" PRIu64 " only in the bad run, %" PRIu64
			" with another value\n",
			s->only_a, s->only_b, s->values);
		print_first(t, s);
		print_rows(t, s);
	}
}
