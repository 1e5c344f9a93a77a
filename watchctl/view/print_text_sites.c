/*
 * The table by site: every cell is known before the first line, so the columns fit exactly. On a terminal
 * that is too narrow, the last columns are left out.
 */
#include <stdlib.h>
#include <string.h>

#include "watchctl/view/printer_impl.h"
#include "watchctl/view/sites.h"
#include "watchctl/view/utf8.h"

enum {
	CELL_COUNT,
	CELL_WATCH,
	CELL_KIND,
	CELL_PLACE,
	CELL_SOURCE,
	CELL_THREADS,
	CELL_LAST,
	CELL_INSN,
	CELLS
};

static const struct {
	const char *title;
	bool right;
	size_t max;
	enum style style;
} columns[CELLS] = {
	[CELL_COUNT] = { "COUNT", true, 20, STYLE_WATCH },
	[CELL_WATCH] = { "WATCH", false, 48, STYLE_WATCH },
	[CELL_KIND] = { "KIND", false, 5, STYLE_UPDATE },
	[CELL_PLACE] = { "SITE", false, 48, STYLE_PLACE },
	[CELL_SOURCE] = { "SOURCE", false, 32, STYLE_DIM },
	[CELL_THREADS] = { "THREADS", true, 8, STYLE_DIM },
	[CELL_LAST] = { "LAST", false, 32, STYLE_DIM },
	[CELL_INSN] = { "INSTRUCTION", false, 0, STYLE_DIM },
};

static void last_text(const struct site *s, char *buf, size_t cap)
{
	const struct watch_event *w = &s->watch->e;
	unsigned int size = w->size ? w->size : 8;
	char was[160], is[160];

	value_format(&w->type, size, s->old_value, NULL, was, sizeof(was));
	value_format(&w->type, size, s->new_value, NULL, is, sizeof(is));
	text_change(s->kind, s->has_old ? was : NULL, s->has_new ? is : NULL,
		    s->has_old && s->has_new && s->old_value == s->new_value, buf, cap);
}

static void cell_text(const struct site *s, int cell, char *buf, size_t cap)
{
	const struct location *l = s->location;
	char place[CELL_TEXT - 16];

	switch (cell) {
	case CELL_COUNT:
		snprintf(buf, cap, "%llu", (unsigned long long)s->count);
		break;
	case CELL_WATCH:
		utf8_clean(s->watch->e.name, buf, cap);
		break;
	case CELL_KIND:
		snprintf(buf, cap, "%s", text_kind(s->kind));
		break;
	case CELL_PLACE:
		text_place(l->module, l->module_offset, l->frame[l->nframes - 1].function, l->offset, s->ip,
			   place, sizeof(place));
		snprintf(buf, cap, "%s%s", s->after ? "then " : "", place);
		break;
	case CELL_SOURCE:
		text_source(l->frame[0].file, l->frame[0].line, buf, cap);
		break;
	case CELL_THREADS:
		snprintf(buf, cap, "%zu", s->tids.n);
		break;
	case CELL_LAST:
		last_text(s, buf, cap);
		break;
	case CELL_INSN:
		utf8_clean(s->insn ? s->insn : "", buf, cap - 32);
		if (s->origin == ORIGIN_KERNEL)
			snprintf(buf + strlen(buf), cap - strlen(buf), "  (by the kernel)");
		break;
	}
}

/* Returns how many columns fit the terminal. */
static int measure(const struct printer *p, const struct sites *s, size_t width[CELLS])
{
	size_t i, n, end = 0;
	char text[CELL_TEXT];
	int c;

	for (c = 0; c < CELLS; c++) {
		width[c] = strlen(columns[c].title);
		for (i = 0; i < s->n; i++) {
			cell_text(s->v[i], c, text, sizeof(text));
			n = utf8_columns(text);
			if (columns[c].max && n > columns[c].max)
				n = columns[c].max;
			if (n > width[c])
				width[c] = n;
		}
		end += width[c];
		if (c > CELL_PLACE && text_overflows(p, end))
			return c;
		end += 2;
	}
	return CELLS;
}

/* Blanks that only fill a column are owed until something follows: no line ends in them. */
static void print_cell(struct printer *p, int c, enum style style, const char *text, size_t width,
		       size_t *owed)
{
	size_t n = utf8_columns(text), fill = n < width ? width - n : 0;

	if (n) {
		fprintf(p->out, "%*s", (int)(*owed + (columns[c].right ? fill : 0)), "");
		text_cell(p, style, text, 0);
		*owed = columns[c].right ? 2 : fill + 2;
	} else {
		*owed += width + 2;
	}
}

void print_text_sites(void *ctx, const struct sites *s)
{
	struct printer *p = ctx;
	size_t width[CELLS], owed = 0, i;
	char text[CELL_TEXT];
	int c, n;

	if (!s->n)
		return;
	text_begin_ending(p);
	n = measure(p, s, width);
	for (c = 0; c < n; c++)
		print_cell(p, c, STYLE_DIM, columns[c].title, width[c], &owed);
	fputc('\n', p->out);
	for (i = 0; i < s->n; i++) {
		owed = 0;
		for (c = 0; c < n; c++) {
			enum style style = c == CELL_KIND ? text_kind_style(s->v[i]->kind) : columns[c].style;

			cell_text(s->v[i], c, text, sizeof(text));
			print_cell(p, c, style, text, width[c], &owed);
		}
		fputc('\n', p->out);
	}
	if (s->incomplete)
		fputs("Memory ran out: the counts above are too low.\n", p->out);
	fputc('\n', p->out);
}
