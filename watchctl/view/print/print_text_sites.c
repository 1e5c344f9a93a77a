/* The table by site. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/sites.h"

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

static const struct text_column columns[CELLS] = {
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
	const struct watch_event *w = &s->key.watch->e;
	unsigned int size = w->size ? w->size : 8;
	char was[160], is[160];

	value_format(&w->type, size, s->old_value, NULL, was, sizeof(was));
	value_format(&w->type, size, s->new_value, NULL, is, sizeof(is));
	text_change(s->key.kind, s->has_old ? was : NULL,
		    s->withheld	 ? view_withheld
		    : s->has_new ? is
				 : NULL,
		    text_step_of(&w->type, size, s->has_old && s->has_new, s->old_uncertain, s->old_value,
				 s->new_value),
		    buf, cap);
}

static void cell_text(const struct site *s, int cell, char *buf, size_t cap)
{
	const struct location *l = s->key.location;
	char place[CELL_TEXT - 16];

	switch (cell) {
	case CELL_COUNT:
		snprintf(buf, cap, "%llu", (unsigned long long)s->count);
		break;
	case CELL_WATCH:
		utf8_clean(s->key.watch->e.name, buf, cap);
		break;
	case CELL_KIND:
		snprintf(buf, cap, "%s", text_kind(s->key.kind));
		break;
	case CELL_PLACE:
		text_place(l->module, l->module_offset, l->frame[l->nframes - 1].function, l->offset,
			   s->key.ip, place, sizeof(place));
		snprintf(buf, cap, "%s%s", s->key.after ? "then " : "", place);
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
		utf8_clean(s->key.insn ? s->key.insn : "", buf, cap - 32);
		if (s->key.origin == ORIGIN_KERNEL)
			snprintf(buf + strlen(buf), cap - strlen(buf), "  (by the kernel)");
		break;
	}
}

static void site_cell(const void *rows, size_t row, int cell, char *buf, size_t cap)
{
	const struct sites *s = rows;

	cell_text(s->v[row], cell, buf, cap);
}

static enum style site_style(const void *rows, size_t row, int cell)
{
	const struct sites *s = rows;

	return cell == CELL_KIND ? text_kind_style(s->v[row]->key.kind) : columns[cell].style;
}

void print_text_sites(void *ctx, const struct sites *s)
{
	struct printer *p = ctx;
	struct text_table t = {
		.column = columns,
		.ncolumns = CELLS,
		.always = CELL_PLACE + 1,
		.rows = s,
		.nrows = s->n,
		.cell = site_cell,
		.style = site_style,
	};

	if (!s->n)
		return;
	text_begin_ending(p);
	text_table(p, &t);
	if (s->incomplete)
		fputs("Memory ran out: the counts above are too low.\n", p->out);
	fputc('\n', p->out);
}
