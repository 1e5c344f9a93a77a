/* Prints a report of a stream of events. */
#ifndef TESTS_UNIT_VIEW_OUTPUT_H
#define TESTS_UNIT_VIEW_OUTPUT_H

#include "tests/unit/view_stream.h"

#include "watchctl/view/event/event_choice.h"
#include "watchctl/view/print/report.h"

struct output {
	char *text;
	size_t len;
	FILE *f;
};

typedef struct printer *new_printer(FILE *out, const struct print_options *options);

static inline void open_output(struct output *o)
{
	o->f = open_memstream(&o->text, &o->len);
	assert_non_null(o->f);
}

/* @facts: ANNOTATE_ flags beside those for stacks and texts. *@o's text is the caller's. */
static inline void print_report(void (*stream)(struct annotate *a), new_printer *printer, unsigned int facts,
				struct output *o, const struct print_options *options,
				const struct report_options *what, const struct event_choice *choice)
{
	struct annotate *a = annotate_new(NULL, ANNOTATE_STACK | ANNOTATE_TEXT | facts);
	struct event_chooser *c;
	struct printer *p;
	struct report *r;

	open_output(o);
	p = printer(o->f, options);
	r = report_new(a, p, what);
	c = event_chooser_new(choice, report_view(r));
	annotate_add_view(a, event_chooser_view(c));
	stream(a);
	report_finish(r);
	report_free(r);
	event_chooser_free(c);
	printer_free(p);
	annotate_free(a);
	fclose(o->f);
}

#endif
