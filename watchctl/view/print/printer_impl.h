/* printer_impl - what a printer is to the files that make it: its state, and the pieces of its text. */
#ifndef WATCHCTL_VIEW_PRINT_PRINTER_IMPL_H
#define WATCHCTL_VIEW_PRINT_PRINTER_IMPL_H

#include "watchctl/base/text_buf.h"
#include "watchctl/view/print/printer.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/json.h"

#define STACK_PLACE_WIDTH 34

/* Columns of an access line that grow with what has been seen, up to a bound. */
enum column { COLUMN_WHO, COLUMN_WATCH, COLUMN_VALUE, COLUMN_PLACE, COLUMN_SOURCE, COLUMNS };

struct printer {
	const struct view_ops *ops;
	void (*flush)(struct printer *p); /* NULL: nothing is held back */
	FILE *out;
	struct print_options opt;
	struct json json;

	size_t width[COLUMNS];
	uint64_t second; /* whose text is in clock */
	char clock[16];
	bool ended;  /* the blank line before the ending has been printed */
	bool folded; /* an access did not fit one line of the terminal: from then on, all take two */

	/* Text, of calls: that which was reported last waits for its return, to be one line with it. */
	struct {
		bool waits;
		bool was_idle;	  /* since that call was reported */
		int32_t pid, tid; /* of the last line */
		uint64_t call;
		uint32_t depth;
		char when[32];
		struct text_buf name, args;
		struct text_buf inputs; /* lines of what came in meanwhile */
		char remark[64];
	} step;
};

enum style text_kind_style(enum access_kind kind);

/* The time of day, microseconds included. */
void text_time(struct printer *p, struct view_time t, char *buf, size_t cap);

/* True when @columns of text do not fit the terminal, where there is one. */
bool text_overflows(const struct printer *p, size_t columns);

/* A blank line, once, between the accesses and what sums them up. */
void text_begin_ending(struct printer *p);

/* print_text_stack.c */

/* The callers of a place that is in a line above; frame 0 as well where functions were inlined into it. */
void text_stack(struct printer *p, const struct view_frame *frame, size_t nframes, enum walk_end end);

/* All of it, indented more. */
void text_inner_stack(struct printer *p, const struct view_frame *frame, size_t nframes, enum walk_end end);

/* The views of the text printer that are in files of their own. */
void print_text_sites(void *ctx, const struct sites *s);
void print_text_probes(void *ctx, const struct probe_totals *probes);
void print_text_tags(void *ctx, const struct tag_totals *t);
void print_text_stacks(void *ctx, const struct stack_trees *t);

/* print_text_step.c, print_text_step_totals.c: of step recordings. */
void print_text_recording(void *ctx, const struct view_event *v);
void print_text_range(void *ctx, const struct view_event *v);
void print_text_call(void *ctx, const struct view_call *c);
void print_text_return(void *ctx, const struct view_return *r);
void print_text_step(void *ctx, const struct view_step *s);
void print_text_signal(void *ctx, const struct view_signal *s);
void print_text_input(void *ctx, const struct view_input *i);
void print_text_blocked(void *ctx, const struct view_blocked *s);
void print_text_steps(void *ctx, const struct step_totals *t);
void print_text_step_flush(struct printer *p); /* prints the call that waits for its return */

struct value_spread;
/* "42", "about 1050" */
void text_median(const struct value_spread *s, char *buf, size_t cap);

/* "3858/s"; "" when it is not known. */
void text_rate(double per_second, char *buf, size_t cap);

#endif
