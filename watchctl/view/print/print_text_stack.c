/* The frames below a line. */
#include <string.h>

#include "watchctl/base/utf8.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/words/view_words.h"

/* On a terminal, the longest names of C++ are cut to what the line can hold. */
static void fit_place(const struct printer *p, size_t used, char *place, const char *source,
		      const char *remark)
{
	used += utf8_columns(source) + 2 + strlen(remark);
	if (p->opt.width)
		text_shorten(place, p->opt.width > used + STACK_PLACE_WIDTH ? p->opt.width - used
									    : STACK_PLACE_WIDTH);
}

static void print_frame(struct printer *p, const char *indent, size_t i, const struct view_frame *f)
{
	char place[CELL_TEXT], source[300], remark[64] = "";

	if (f->inlined)
		utf8_clean(f->function ? f->function : "?", place, sizeof(place));
	else
		text_place(f->module, f->module_offset, f->function, f->offset, f->ip, place, sizeof(place));
	text_source(f->file, f->line, source, sizeof(source));
	if (!source[0] && f->function && f->module)
		text_source(f->module, 0, source, sizeof(source));
	snprintf(remark, sizeof(remark), "%s%s", f->inlined ? "  (inlined)" : "",
		 f->signal ? "  (signal handler called)" : "");
	fit_place(p, strlen(indent) + strlen("#00 "), place, source, remark);
	fprintf(p->out, "%s#%-2zu ", indent, i);
	if (!source[0] && !f->inlined && !f->signal) {
		text_cell(p, STYLE_PLACE, place, 0);
	} else {
		text_cell(p, STYLE_PLACE, place, STACK_PLACE_WIDTH);
		fprintf(p->out, "  %s", source);
	}
	fprintf(p->out, "%s\n", remark);
}

static void print_frames(struct printer *p, const char *indent, const struct view_frame *frame, size_t first,
			 size_t nframes, enum walk_end end)
{
	const char *why = text_walk_end(end);
	size_t i;

	for (i = first; i < nframes; i++)
		print_frame(p, indent, i, &frame[i]);
	if (why && nframes) {
		fputs(indent, p->out);
		text_cell(p, STYLE_DIM, "... ", 0);
		text_cell(p, STYLE_DIM, why, 0);
		fputc('\n', p->out);
	}
}

void text_stack(struct printer *p, const struct view_frame *frame, size_t nframes, enum walk_end end)
{
	print_frames(p, "    ", frame, nframes && !frame[0].inlined ? 1 : 0, nframes, end);
}

void text_inner_stack(struct printer *p, const struct view_frame *frame, size_t nframes, enum walk_end end)
{
	print_frames(p, "        ", frame, 0, nframes, end);
}

void printer_stack(struct printer *p, const struct view_frame *frame, size_t nframes, enum walk_end end)
{
	text_inner_stack(p, frame, nframes, end);
}
