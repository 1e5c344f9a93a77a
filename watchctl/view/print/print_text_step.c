/*
 * Calls as a tree, in the order of time. A line names its thread when that is another one than above:
 *
 *	worker/1235:
 *	12:34:56.789012  parse_request(req = 0x55.. -> {id = 1, len = 12}, len = 12) {
 *	12:34:56.789020    strlen(s = "GET /") = 5 [1.2 us]
 *	12:34:56.789031    read(fd = 4, buf = 0x7f.., count = 4096) = -1 EIO (Input/output error) [3.0 us]
 *	12:34:56.789040  } parse_request = -1 [28.1 us]
 *
 * A call waits for its return, as the last thing reported: when nothing comes between them they are one line.
 */
#include <stdarg.h>
#include <string.h>

#include "watchctl/base/syscall_name.h"
#include "watchctl/base/utf8.h"
#include "watchctl/code/symbols/bare_name.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/print/text_table.h"
#include "watchctl/view/words/text_shorten.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/event/input_words.h"
#include "watchctl/view/event/step_words.h"

#define CHANGES_SHOWN 4u /* of what a call has changed in memory */
#define CHANGE_MAX 32u	 /* columns of each */
#define INDENT_MAX 60	 /* columns; deeper calls say how deep they are */
#define VALUE_MIN 16	 /* columns that a value keeps however narrow the terminal is */
#define VALUE_TEXT 4608	 /* as annotate makes them at most */
#define RESULT_MIN 24
#define PLACE_TEXT (CELL_TEXT + 310)
#define OPEN_MAX 32 /* calls reported a thread that stands */

/* Pieces of lines */

static void print_thread(struct printer *p, int32_t pid, int32_t tid, const char *comm)
{
	char clean[64];

	if (p->step.pid == pid && p->step.tid == tid)
		return;
	p->step.pid = pid;
	p->step.tid = tid;
	utf8_clean(comm && *comm ? comm : "?", clean, sizeof(clean));
	text_cell(p, STYLE_WATCH, clean, 0);
	fprintf(p->out, "/%d:\n", tid);
}

static size_t indent_of(const struct printer *p, uint32_t depth)
{
	size_t most = p->opt.width && p->opt.width / 3 < INDENT_MAX ? p->opt.width / 3 : INDENT_MAX;

	return 2 * (size_t)depth < most ? 2 * (size_t)depth : most & ~(size_t)1;
}

static void print_indent(struct printer *p, const char *when, uint32_t depth)
{
	size_t indent = indent_of(p, depth);
	static const char spaces[] = "                                                              ";

	_Static_assert(sizeof(spaces) > INDENT_MAX + 2, "of the deepest line, too");
	text_cell(p, STYLE_DIM, when, 0);
	fwrite(spaces, 1, indent + 2, p->out);
	if (indent < 2 * (size_t)depth)
		fprintf(p->out, "(%u) ", depth);
}

static void print_inputs(struct printer *p)
{
	fputs(text_buf_text(&p->step.inputs), p->out);
	text_buf_empty(&p->step.inputs);
}

/* "(values)", of the call that waits. Piece by piece, without printf: there are millions of them. */
static void print_args(struct printer *p)
{
	fputc('(', p->out);
	fputs(text_buf_text(&p->step.args), p->out);
	fputc(')', p->out);
	fputs(p->step.remark, p->out);
}

/* "{\n" behind the call that waits: something else comes before its return. */
void print_text_step_flush(struct printer *p)
{
	if (!p->step.waits)
		return;
	p->step.waits = false;
	print_indent(p, p->step.when, p->step.depth);
	text_cell(p, STYLE_PLACE, text_buf_text(&p->step.name), 0);
	print_args(p);
	fputs(" {\n", p->out);
	print_inputs(p);
}

/* Calls */

static const char *call_remark(const struct view_call *c)
{
	if (c->raw->flags & CALL_SIGNAL)
		return "  (signal handler)";
	if (c->raw->flags & CALL_TAIL)
		return "  (tail call)";
	if (c->raw->flags & CALL_CALLBACK && c->depth)
		return "  (called back)";
	return "";
}

static void clean_value(const struct view_value *v, char *buf, size_t cap)
{
	utf8_clean(v->text ? v->text : "?", buf, cap);
}

/* The end of a value is what may be missing: a pointer comes before what it points to. */
static void cut_end(char *s, size_t columns)
{
	size_t n = 0, left = columns - 3;

	if (utf8_columns(s) <= columns)
		return;
	while (left-- && s[n])
		n += utf8_len(s + n);
	memcpy(s + n, "...", 4);
}

/* How wide values may be, so that all of them take @room columns together; at least VALUE_MIN. */
static size_t value_bound(const size_t *width, size_t n, size_t room)
{
	size_t bound = VALUE_MIN, low = VALUE_MIN, high = room, sum, i;

	while (low <= high) {
		size_t middle = low + (high - low) / 2;

		for (sum = 0, i = 0; i < n; i++)
			sum += width[i] < middle ? width[i] : middle;
		if (sum <= room) {
			bound = middle;
			low = middle + 1;
		} else {
			high = middle - 1;
		}
	}
	return bound;
}

/* Of calls that were compiled in, values are recorded by choice: of the others the name says enough. */
static bool is_name_alone(const struct view_call *c, const struct view_value *v)
{
	return v->name && v->v.state == VALUE_NONE && !c->raw->nframes && !c->raw->sp;
}

/* What is left of the terminal's width for values, when their names and all else has its place. */
static size_t bound_of(struct printer *p, const struct view_call *c)
{
	size_t used = strlen(p->step.when) + 2 + indent_of(p, c->depth) +
		      utf8_columns(text_buf_text(&p->step.name)) + strlen("()") + RESULT_MIN;
	size_t width[FUNCTION_PARAMS_MAX], i;
	char text[VALUE_TEXT];

	for (i = 0; i < c->nargs; i++) {
		const bool has_value = !is_name_alone(c, &c->arg[i]);

		clean_value(&c->arg[i], text, sizeof(text));
		width[i] = has_value ? utf8_columns(text) : 0;
		used += 2;
		if (c->arg[i].name)
			used += utf8_columns(utf8_clean(c->arg[i].name, text, sizeof(text))) +
				(has_value ? strlen(" = ") : 0);
	}
	return value_bound(width, c->nargs, p->opt.width > used ? p->opt.width - used : 0);
}

static void add_args(struct printer *p, const struct view_call *c, struct text_buf *t)
{
	size_t bound = p->opt.width ? bound_of(p, c) : 0, i;
	char text[VALUE_TEXT];

	for (i = 0; i < c->nargs; i++) {
		if (i)
			text_buf_add(t, ", ");
		if (c->arg[i].name) {
			text_buf_add(t, utf8_clean(c->arg[i].name, text, sizeof(text)));
			if (is_name_alone(c, &c->arg[i]))
				continue;
			text_buf_add(t, " = ");
		}
		clean_value(&c->arg[i], text, sizeof(text));
		if (bound)
			cut_end(text, bound);
		text_buf_add(t, text);
	}
	if (c->nargs < c->function->e.nparams)
		text_buf_add(t, c->nargs ? ", ..." : "...");
	/* Nothing is known of what it takes: as in C. */
	else if (!c->function->e.nparams && c->function->e.flags & FUNCTION_NO_TYPES)
		text_buf_add(t, "...");
}

/* Without the types of its parameters: their values follow. */
static void name_text(const struct printer *p, const struct view_function *f, char name[CELL_TEXT])
{
	char bare[CELL_TEXT];

	utf8_clean(bare_name(f->text, bare, sizeof(bare)), name, CELL_TEXT);
	if (p->opt.width)
		text_shorten(name, p->opt.width / 2 > 20 ? p->opt.width / 2 : 20);
}

void print_text_call(void *ctx, const struct view_call *c)
{
	struct printer *p = ctx;
	char name[CELL_TEXT];

	print_text_step_flush(p);
	print_thread(p, c->raw->pid, c->raw->tid, c->comm);
	p->step.waits = true;
	p->step.was_idle = false;
	p->step.call = c->raw->call;
	p->step.depth = c->depth;
	text_buf_empty(&p->step.name);
	text_buf_empty(&p->step.args); /* no memory: a shorter line is better than none */
	text_time(p, c->time, p->step.when, sizeof(p->step.when));
	snprintf(p->step.remark, sizeof(p->step.remark), "%s", call_remark(c));
	name_text(p, c->function, name);
	text_buf_add(&p->step.name, name);
	add_args(p, c, &p->step.args);
	/* Who called the outermost one is reported below its line: of the others, the tree shows. */
	if (c->depth == 0 && c->nframes && !p->opt.no_stack) {
		print_text_step_flush(p);
		text_inner_stack(p, c->frame, c->nframes, c->walk_end);
	}
}

/* Returns */

static void print_error(struct printer *p, int error)
{
	const char *words = strerrordesc_np(error);
	char name[32], text[160];

	step_error_name(error, name, sizeof(name));
	snprintf(text, sizeof(text), words ? "%s (%s)" : "%s", name, words);
	fputc(' ', p->out);
	text_cell(p, STYLE_ALERT, text, 0);
}

/* "; total = 5, *buf = "abc" and 2 more": the first ones, in the line if there is room for them. */
static void print_changes(struct printer *p, const struct view_return *r)
{
	char text[VALUE_TEXT];
	size_t i;

	for (i = 0; i < r->nchanges && i < CHANGES_SHOWN; i++) {
		utf8_clean(r->change[i].text, text, sizeof(text));
		if (p->opt.width)
			cut_end(text, CHANGE_MAX);
		fputs(i ? ", " : "; ", p->out);
		text_cell(p, STYLE_DIM, r->change[i].label, 0);
		fprintf(p->out, " = %s", text);
	}
	if (r->nchanges > CHANGES_SHOWN || r->more_changes)
		fprintf(p->out, "%s%s", r->nchanges ? " and " : "; changes ", r->more_changes ? "more" : "");
	if (r->nchanges > CHANGES_SHOWN && !r->more_changes)
		fprintf(p->out, "%zu more", r->nchanges - CHANGES_SHOWN);
}

static void print_outcome(struct printer *p, const struct view_return *r)
{
	const char *how = step_how_text(r->raw->how);
	char text[VALUE_TEXT], took[40];

	if (r->result) {
		clean_value(r->result, text, sizeof(text));
		if (p->opt.width)
			cut_end(text, p->opt.width / 2 > RESULT_MIN ? p->opt.width / 2 : RESULT_MIN);
		fprintf(p->out, " = %s", text);
	}
	if (r->raw->has_error)
		print_error(p, r->raw->error);
	print_changes(p, r);
	if (how) {
		snprintf(text, sizeof(text), "  (%s)", how);
		text_cell(p, STYLE_ALERT, text, 0);
	}
	if (r->begun) {
		text_duration(r->duration_ns, took, sizeof(took));
		snprintf(text, sizeof(text), " [%s]", took);
		text_cell(p, STYLE_DIM, text, 0);
	}
	fputc('\n', p->out);
}

void print_text_return(void *ctx, const struct view_return *r)
{
	struct printer *p = ctx;
	char when[32], name[CELL_TEXT];

	if (p->step.waits && p->step.call == r->raw->call) {
		p->step.waits = false;
		print_indent(p, p->step.when, p->step.depth);
		text_cell(p, STYLE_PLACE, text_buf_text(&p->step.name), 0);
		print_args(p);
		print_outcome(p, r);
		print_inputs(p);
		return;
	}
	print_text_step_flush(p);
	print_thread(p, r->raw->pid, r->raw->tid, r->comm);
	text_time(p, r->time, when, sizeof(when));
	print_indent(p, when, r->depth);
	name_text(p, r->function, name);
	fputs("} ", p->out);
	text_cell(p, STYLE_PLACE, name, 0);
	print_outcome(p, r);
}

/* The rest */

/* "set_flag+26  app.c:17" */
static void place_text(const struct view_frame *frame, size_t nframes, char *buf, size_t cap)
{
	char place[CELL_TEXT], source[300];
	const struct view_frame *f;

	buf[0] = '\0';
	if (!nframes)
		return;
	f = &frame[nframes - 1];
	text_place(f->module, f->module_offset, f->function, f->offset, f->ip, place, sizeof(place));
	text_source(frame[0].file, frame[0].line, source, sizeof(source));
	snprintf(buf, cap, "%s%s%s", place, *source ? "  " : "", source);
}

void print_text_step(void *ctx, const struct view_step *s)
{
	struct printer *p = ctx;
	char when[32], place[PLACE_TEXT];

	print_text_step_flush(p);
	print_thread(p, s->raw->pid, s->raw->tid, s->comm);
	text_time(p, s->time, when, sizeof(when));
	print_indent(p, when, s->depth);
	place_text(s->frame, s->nframes, place, sizeof(place));
	fprintf(p->out, "at 0x%llx  ", (unsigned long long)s->raw->ip);
	text_cell(p, STYLE_DIM, place, 0);
	fputc('\n', p->out);
}

void print_text_signal(void *ctx, const struct view_signal *s)
{
	struct printer *p = ctx;
	char when[32], place[PLACE_TEXT], name[32];

	print_text_step_flush(p);
	print_thread(p, s->raw->pid, s->raw->tid, s->comm);
	text_time(p, s->time, when, sizeof(when));
	print_indent(p, when, s->depth);
	step_signal_name(s->raw->signal, name, sizeof(name));
	place_text(s->frame, s->nframes, place, sizeof(place));
	text_cell(p, STYLE_ALERT, name, 0);
	fprintf(p->out, " arrives at %s\n", place);
}

/* Below the line of the call in which it came, which waits for its return. */
void print_text_input(void *ctx, const struct view_input *i)
{
	struct printer *p = ctx;
	bool waits = p->step.waits && p->step.call == i->raw->call;
	char when[32], text[CELL_TEXT];

	if (!waits) {
		print_text_step_flush(p);
		if (i->raw->syscall >= 0)
			print_thread(p, i->raw->pid, i->raw->tid, i->comm);
	}
	text_time(p, i->time, when, sizeof(when));
	input_text(i->raw, text, sizeof(text));
	if (p->opt.width > indent_of(p, i->depth) + strlen(when) + 20)
		cut_end(text, p->opt.width - indent_of(p, i->depth) - strlen(when) - 10);
	text_buf_printf(&p->step.inputs, "%s  %*sinput %s\n", when, (int)indent_of(p, i->depth), "", text);
	if (!waits)
		print_inputs(p);
}

void print_text_range(void *ctx, const struct view_event *v)
{
	const struct range_event *r = &v->raw->range;
	struct printer *p = ctx;
	char when[32], text[160];

	print_text_step_flush(p);
	p->step.pid = p->step.tid = 0;
	text_time(p, v->time, when, sizeof(when));
	text_cell(p, STYLE_DIM, when, 0);
	if (r->what == RANGE_BEGIN)
		snprintf(text, sizeof(text), "occurrence %u of the range begins", r->occurrence);
	else
		snprintf(text, sizeof(text), "occurrence %u of the range ends: %s", r->occurrence,
			 step_range_text(r->what));
	fputs("  ", p->out);
	text_cell(p, r->what == RANGE_STUCK ? STYLE_ALERT : STYLE_TAG, text, 0);
	fputc('\n', p->out);
}

static void print_open_calls(struct printer *p, const struct view_blocked *s)
{
	char name[CELL_TEXT], took[40];
	size_t i;

	for (i = 0; i < s->nopen && i < OPEN_MAX; i++) {
		const struct view_open_call *o = &s->open[s->nopen - 1 - i];
		uint64_t ns = s->time.mono_ns > o->time_ns ? s->time.mono_ns - o->time_ns : 0;

		text_duration(ns, took, sizeof(took));
		utf8_clean(o->function->text, name, sizeof(name));
		fprintf(p->out, "    %s ", i ? "called by" : "in       ");
		text_cell(p, STYLE_PLACE, name, 0);
		fprintf(p->out, ", call %llu, open for %s\n", (unsigned long long)o->call, took);
	}
	if (i < s->nopen)
		fprintf(p->out, "    and %zu more around them\n", s->nopen - i);
}

void print_text_blocked(void *ctx, const struct view_blocked *s)
{
	const char *call = s->raw->syscall >= 0 ? syscall_name(s->raw->syscall) : NULL;
	struct printer *p = ctx;
	char when[32], comm[64];

	print_text_step_flush(p);
	p->step.pid = p->step.tid = 0;
	text_time(p, s->time, when, sizeof(when));
	utf8_clean(s->comm && *s->comm ? s->comm : "?", comm, sizeof(comm));
	text_cell(p, STYLE_DIM, when, 0);
	fputs("  ", p->out);
	text_cell(p, STYLE_WATCH, comm, 0);
	fprintf(p->out, "/%d is ", s->raw->tid);
	if (call)
		fprintf(p->out, "blocked in the system call %s:\n", call);
	else if (s->raw->syscall >= 0)
		fprintf(p->out, "blocked in system call %d:\n", s->raw->syscall);
	else
		fputs("in its own code:\n", p->out);
	print_open_calls(p, s);
	text_inner_stack(p, s->frame, s->nframes, s->walk_end);
}
