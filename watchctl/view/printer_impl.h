/* printer_impl - what the two printers and their table share. */
#ifndef WATCHCTL_VIEW_PRINTER_IMPL_H
#define WATCHCTL_VIEW_PRINTER_IMPL_H

#include "watchctl/view/json.h"
#include "watchctl/view/printer.h"

#define CELL_TEXT 512
#define STACK_PLACE_WIDTH 34

/* Columns of an access line that grow with what has been seen, up to a bound. */
enum column { COLUMN_WHO, COLUMN_WATCH, COLUMN_VALUE, COLUMN_PLACE, COLUMN_SOURCE, COLUMNS };

/* A text that grows. Zero-initialised is empty. */
struct growing_text {
	char *text; /* NULL: nothing yet */
	size_t len, cap;
	bool failed; /* out of memory: it ends there */
};

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

	/* Text, of calls: that which was told last waits for its return, to be one line with it. */
	struct {
		bool waits;
		bool was_idle;	  /* since that call was told */
		int32_t pid, tid; /* of the last line */
		uint64_t call;
		uint32_t depth;
		char when[32];
		struct growing_text name, args;
		char remark[64];
	} step;
};

const char *printer_reg_name(enum reg r);

enum style {
	STYLE_DIM,
	STYLE_WATCH,
	STYLE_READ,
	STYLE_WRITE,
	STYLE_UPDATE,
	STYLE_PLACE,
	STYLE_ALERT,
	STYLE_TAG,
	STYLES
};

/* Prints @text in @style, then spaces up to @width columns. */
void text_cell(struct printer *p, enum style style, const char *text, size_t width);

const char *text_kind(enum access_kind kind);

/* As formats for programs name it: "read", "write", "readwrite", "execute", "unknown". */
const char *text_kind_name(enum access_kind kind);

/* What a watch is for, in words: "reads", "reads and writes" ... */
const char *text_access(uint32_t access);

enum style text_kind_style(enum access_kind kind);

/* "set_flag+26", "libfoo.so+0x1234", "0x7f..". */
void text_place(const char *module, uint64_t module_offset, const char *function, uint64_t offset,
		uint64_t ip, char *buf, size_t cap);

/* "app.c:17"; "" when not known. */
void text_source(const char *file, unsigned int line, char *buf, size_t cap);

/* "41 -> 42", "42" for reads, "42 (same)", "?" for what is not known. */
void text_change(enum access_kind kind, const char *old_text, const char *new_text, bool same, char *buf,
		 size_t cap);

/* The time of day, microseconds included. */
void text_time(struct printer *p, struct view_time t, char *buf, size_t cap);

/* True when @columns of text do not fit the terminal, where there is one. */
bool text_overflows(const struct printer *p, size_t columns);

/* A blank line, once, between the accesses and what sums them up. */
void text_begin_ending(struct printer *p);

/* text_table.c */

#define TABLE_COLUMNS 12

struct text_column {
	const char *title;
	bool right;
	size_t max; /* columns of the terminal; 0: no bound */
	enum style style;
};

struct text_table {
	const struct text_column *column;
	int ncolumns;
	int always; /* that many are printed however narrow the terminal is */
	const void *rows;
	size_t nrows;
	void (*cell)(const void *rows, size_t row, int column, char *buf, size_t cap);
	enum style (*style)(const void *rows, size_t row, int column); /* NULL: those of the columns */
};

void text_table(struct printer *p, const struct text_table *t);

/* print_text_stack.c */

/* The callers of a place that is in a line above; frame 0 as well where functions were inlined into it. */
void text_stack(struct printer *p, const struct view_frame *frame, size_t nframes, enum walk_end end);

/* All of it, indented more. */
void text_inner_stack(struct printer *p, const struct view_frame *frame, size_t nframes, enum walk_end end);

/* Why there are no more frames, as a sentence; NULL: there are no more. */
const char *text_walk_end(enum walk_end why);

/* The views of the text printer that are in files of their own. */
void print_text_sites(void *ctx, const struct sites *s);
void print_text_tags(void *ctx, const struct tag_totals *t);
void print_text_stacks(void *ctx, const struct stack_trees *t);

/* print_text_step.c, print_text_step_totals.c: of step recordings. */
void print_text_recording(void *ctx, const struct recording_event *r, struct view_time time);
void print_text_range(void *ctx, const struct range_event *r, const char *comm, struct view_time time);
void print_text_call(void *ctx, const struct view_call *c);
void print_text_return(void *ctx, const struct view_return *r);
void print_text_step(void *ctx, const struct view_step *s);
void print_text_signal(void *ctx, const struct view_signal *s);
void print_text_stood(void *ctx, const struct view_stood *s);
void print_text_steps(void *ctx, const struct step_totals *t);
void print_text_step_flush(struct printer *p); /* prints the call that waits for its return */

/* "42"; what is too large to be a number that people read, in hexadecimal. */
void text_number(uint64_t v, char *buf, size_t cap);

/* "12.3 us" */
void text_duration(uint64_t ns, char *buf, size_t cap);

struct value_spread;
/* "42", "about 1050" */
void text_median(const struct value_spread *s, char *buf, size_t cap);

/* "3858/s"; "" when it is not known. */
void text_rate(double per_second, char *buf, size_t cap);

/* "libc.so.6" */
const char *text_base_name(const char *path);

/*
 * Makes the clean text @s, a function's name, fit @columns (at least 8) where it does not: takes out what
 * stands between the brackets of C++, template arguments first, then parameters; then the middle.
 */
void text_shorten(char *s, size_t columns);

/* Takes out the middle of the clean text @s, "...", so that it fits @columns; at least 8. */
void text_cut_middle(char *s, size_t columns);

/* print_json.c: the pieces of its lines. */
void print_json_begin(struct printer *p, const char *type);
void print_json_end(struct printer *p);
void print_json_text(struct json *j, const char *name, const char *text); /* absent when it is empty */
void print_json_tag(struct json *j, const struct view_tag *tag);
void print_json_withheld(struct json *j, unsigned int what); /* WITHHELD_; absent when it is 0 */
void print_json_frame(struct json *j, const struct view_frame *f, bool with_ip);
/* Of a place in the real function @real; the line is that of @source, the innermost function there. */
void print_json_place(struct json *j, const struct view_frame *real, const struct view_frame *source);
const char *print_json_walk_end(enum walk_end why);

void print_json_time(struct printer *p, struct view_time t);
void print_json_stack(struct json *j, const struct view_frame *frame, size_t nframes, enum walk_end end);
void print_json_source(struct json *j, const char *file, unsigned int line);

/* print_json_step.c */
void print_json_recording(void *ctx, const struct recording_event *r, struct view_time time);
void print_json_thread(void *ctx, const struct thread_event *t, struct view_time time);
void print_json_range(void *ctx, const struct range_event *r, const char *comm, struct view_time time);
void print_json_call(void *ctx, const struct view_call *c);
void print_json_return(void *ctx, const struct view_return *r);
void print_json_step(void *ctx, const struct view_step *s);
void print_json_signal(void *ctx, const struct view_signal *s);
void print_json_stood(void *ctx, const struct view_stood *s);
void print_json_steps(void *ctx, const struct step_totals *t);

/* print_json_tags.c */
void print_json_tags(void *ctx, const struct tag_totals *t);
void print_json_stacks(void *ctx, const struct stack_trees *t);

#endif
