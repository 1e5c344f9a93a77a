/*
 * A table as RFC 4180 has it: a line an access, captured stack, event of a probe, call or return; the columns are those of the
 * JSON form, by the same names, and empty where they are not known or do not apply.
 *
 * A text that a spreadsheet would take for a formula, because of the character that it begins with, gets a
 * ' in front, unless it is a number.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/error.h"
#include "watchctl/base/syscall_name.h"
#include "watchctl/view/export/export_impl.h"
#include "watchctl/view/export/export_text.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/event/step_words.h"

#define COLUMNS                                                                                              \
	"type,time_ns,time,pid,tid,comm,watch,tag,kind,origin,addr,size,old,new,old_text,new_text,value,ip," \
	"insn,module,module_offset,function,offset,file,line,syscall,kernel_function,displaced,stack,"       \
	"stack_end,call,parent,depth,args,ret,how,errno,duration_ns,probe,text"

struct csv_writer {
	struct export_writer w;
	struct text_buf row, cell;
	bool begun; /* the row has a cell */
	bool headed;
};

/* Cells */

static void separate(struct csv_writer *c)
{
	if (c->begun)
		text_buf_char(&c->row, ',');
	c->begun = true;
}

static void none(struct csv_writer *c)
{
	separate(c);
}

static void skip(struct csv_writer *c, unsigned int n)
{
	while (n--)
		none(c);
}

static bool is_number(const char *s)
{
	char *end;

	strtod(s, &end);
	return end > s && !*end;
}

static bool is_formula(const char *s)
{
	return *s && strchr("=+-@\t\r", *s) && !is_number(s);
}

/* A text that is clean already. */
static void put_clean(struct csv_writer *c, const char *s)
{
	bool formula = is_formula(s);
	const char *quote;

	separate(c);
	if (!formula && !strpbrk(s, ",\"")) {
		text_buf_add(&c->row, s);
		return;
	}
	text_buf_add(&c->row, formula ? "\"'" : "\"");
	while ((quote = strchr(s, '"'))) {
		text_buf_put(&c->row, s, (size_t)(quote - s) + 1);
		text_buf_char(&c->row, '"');
		s = quote + 1;
	}
	text_buf_add(&c->row, s);
	text_buf_char(&c->row, '"');
}

static void put_cell(struct csv_writer *c)
{
	put_clean(c, text_buf_text(&c->cell));
	c->row.failed |= c->cell.failed;
	text_buf_empty(&c->cell);
}

static void text(struct csv_writer *c, const char *s)
{
	if (!s || !*s) {
		none(c);
		return;
	}
	export_text_clean(&c->cell, s);
	put_cell(c);
}

static void export_csv_number(struct csv_writer *c, uint64_t v)
{
	separate(c);
	text_buf_printf(&c->row, "%llu", (unsigned long long)v);
}

static void hex(struct csv_writer *c, bool known, uint64_t v)
{
	separate(c);
	if (!known)
		return;
	text_buf_add(&c->row, "0x");
	text_buf_hex(&c->row, v, 0);
}

static void time_of(struct csv_writer *c, struct view_time t)
{
	time_t second = (time_t)(t.real_ns / 1000000000u);
	char stamp[24];
	struct tm tm;

	export_csv_number(c, t.mono_ns);
	if (!t.real_ns || !gmtime_r(&second, &tm) ||
	    !strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm)) {
		none(c);
		return;
	}
	separate(c);
	text_buf_printf(&c->row, "%s.%09lluZ", stamp, (unsigned long long)(t.real_ns % 1000000000u));
}

static void who(struct csv_writer *c, int32_t pid, int32_t tid, const char *comm)
{
	separate(c);
	text_buf_printf(&c->row, "%d,%d", pid, tid);
	text(c, comm);
}

static void stack(struct csv_writer *c, const struct view_frame *frame, size_t nframes, enum walk_end end)
{
	static const char *const ends[] = {
		[WALK_END_COMPLETE] = "complete",
		[WALK_END_DEPTH] = "depth",
		[WALK_END_UNREADABLE] = "unreadable",
		[WALK_END_NO_RULE] = "no_rule",
		[WALK_END_NOT_ASCENDING] = "not_ascending",
		[WALK_END_UNKNOWN_PC] = "unknown_pc",
		[WALK_END_LOST] = "lost",
	};

	if (c->w.opt->no_stack) {
		skip(c, 2);
		return;
	}
	export_text_stack(&c->cell, frame, nframes, WALK_END_COMPLETE);
	put_cell(c);
	text(c, ends[end]);
}

/* Rows */

static void export_csv_begin(struct csv_writer *c, const char *type, struct view_time time)
{
	if (!c->headed)
		fputs(COLUMNS "\r\n", export_out_file(c->w.out));
	c->headed = true;
	c->begun = false;
	text_buf_empty(&c->row);
	text(c, type);
	time_of(c, time);
}

/* The columns of probes come last. */
static void end_probe(struct csv_writer *c, const char *probe, const char *what)
{
	text(c, probe);
	text(c, what);
	text_buf_put(&c->row, "\r\n", 2);
	if (c->row.failed)
		export_fail(&c->w, &wc_enomem);
	else
		fwrite(c->row.bytes, 1, c->row.len, export_out_file(c->w.out));
}

static void end(struct csv_writer *c)
{
	end_probe(c, NULL, NULL);
}

static void export_csv_place(struct csv_writer *c, const char *module, uint64_t module_offset,
			     const char *function, uint64_t offset, const char *file, unsigned int line)
{
	text(c, module);
	hex(c, module != NULL, module_offset);
	text(c, function);
	if (function)
		export_csv_number(c, offset);
	else
		none(c);
	text(c, file);
	if (file && line)
		export_csv_number(c, line);
	else
		none(c);
}

static void syscall_of(struct csv_writer *c, const struct access_event *e)
{
	const char *name = e->in_kernel ? syscall_name(e->syscall) : NULL;

	if (e->in_kernel && e->syscall >= 0 && !name)
		export_csv_number(c, (uint64_t)e->syscall);
	else
		text(c, name);
	text(c, e->in_kernel ? e->kernel_function : NULL);
}

/* As people read it: "~41" where it is uncertain. */
static void old_text(struct csv_writer *c, const struct view_access *a)
{
	char marked[400];

	snprintf(marked, sizeof(marked), "~%s", a->old_text ? a->old_text : "");
	text(c, a->raw->old_uncertain && a->old_text ? marked : a->old_text);
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct csv_writer *c = ctx;
	const struct access_event *e = a->raw;
	const struct location *l = a->location;

	export_csv_begin(c, "access", a->time);
	who(c, e->pid, e->tid, a->comm);
	text(c, a->watch->e.name);
	none(c);
	text(c, text_kind_name(a->kind));
	text(c, a->origin == ORIGIN_KERNEL ? "kernel" : "user");
	hex(c, true, e->addr);
	export_csv_number(c, e->size);
	hex(c, e->has_old, e->old_value);
	hex(c, e->has_new, e->new_value);
	old_text(c, a);
	text(c, a->new_text);
	none(c);
	hex(c, a->ip != 0, a->ip);
	text(c, a->ip ? a->insn : NULL);
	/* Of where execution went on, nothing: it is another place. */
	if (a->ip)
		export_csv_place(c, l->module, l->module_offset, l->frame[l->nframes - 1].function, l->offset,
				 l->frame[0].file, l->frame[0].line);
	else
		skip(c, 6);
	syscall_of(c, e);
	text(c, e->displaced ? "true" : NULL);
	stack(c, a->frame, a->nframes, a->walk_end);
	skip(c, 8);
	end(c);
}

static void on_capture(void *ctx, const struct view_capture *v)
{
	struct csv_writer *c = ctx;
	const struct view_frame *f = v->frame, *real = f;

	export_csv_begin(c, "stack", v->time);
	who(c, v->raw->pid, v->raw->tid, v->comm);
	none(c);
	text(c, v->tag->text);
	skip(c, 8);
	if (v->raw->withheld)
		text(c, view_withheld);
	else
		hex(c, v->raw->has_value, v->raw->value);
	skip(c, 2);
	if (v->nframes) {
		while (real + 1 < f + v->nframes && real->inlined)
			real++;
		export_csv_place(c, real->module, real->module_offset, real->function, real->offset, f->file,
				 f->line);
	} else {
		skip(c, 6);
	}
	skip(c, 3);
	stack(c, v->frame, v->nframes, v->walk_end);
	skip(c, 8);
	end(c);
}

static void on_probe(void *ctx, const struct view_probe *v)
{
	struct csv_writer *c = ctx;
	const struct probe_event *e = v->raw;
	const struct view_frame *f = v->frame, *real = f;

	export_csv_begin(c, "probe", v->time);
	who(c, e->pid, e->tid, v->comm);
	none(c);
	text(c, e->kind == PROBE_KIND_STACK ? e->format : NULL);
	skip(c, 8);
	if (e->withheld)
		text(c, view_withheld);
	else
		hex(c, e->kind != PROBE_KIND_LOG && e->nargs, e->arg[0]);
	hex(c, v->nframes != 0, v->nframes ? f->ip : 0);
	text(c, v->site->insn);
	if (v->nframes) {
		while (real + 1 < f + v->nframes && real->inlined)
			real++;
		export_csv_place(c, real->module, real->module_offset, real->function, real->offset, f->file,
				 f->line);
	} else {
		skip(c, 6);
	}
	skip(c, 3);
	if (v->has_stack)
		stack(c, f, v->nframes, v->walk_end);
	else
		skip(c, 2);
	skip(c, 8);
	end_probe(c, v->site->probe, e->kind == PROBE_KIND_LOG ? v->text : NULL);
}

static void function_of(struct csv_writer *c, const struct function_event *f)
{
	text(c, f->module);
	hex(c, f->module && f->address, f->address);
	text(c, f->name);
	none(c);
	text(c, f->file);
	if (f->file && f->line)
		export_csv_number(c, f->line);
	else
		none(c);
}

static void on_call(void *ctx, const struct view_call *v)
{
	struct csv_writer *c = ctx;

	export_csv_begin(c, "call", v->time);
	who(c, v->raw->pid, v->raw->tid, v->comm);
	skip(c, 13);
	function_of(c, &v->function->e);
	skip(c, 3);
	stack(c, v->frame, v->nframes, v->walk_end);
	export_csv_number(c, v->raw->call);
	if (v->raw->parent)
		export_csv_number(c, v->raw->parent);
	else
		none(c);
	export_csv_number(c, v->raw->depth);
	export_text_args(&c->cell, v->arg, v->nargs);
	put_cell(c);
	skip(c, 4);
	end(c);
}

static void on_return(void *ctx, const struct view_return *v)
{
	struct csv_writer *c = ctx;
	char name[32] = "";

	export_csv_begin(c, "return", v->time);
	who(c, v->raw->pid, v->raw->tid, v->comm);
	skip(c, 13);
	function_of(c, &v->function->e);
	skip(c, 5);
	export_csv_number(c, v->raw->call);
	skip(c, 3);
	if (v->result)
		export_text_args(&c->cell, v->result, 1);
	put_cell(c);
	text(c, step_how_name(v->raw->how));
	if (v->raw->has_error)
		step_error_name(v->raw->error, name, sizeof(name));
	text(c, name);
	if (v->begun)
		export_csv_number(c, v->duration_ns);
	else
		none(c);
	end(c);
}

/* A log of nothing is a table of no rows. */
static struct wc_error *export_csv_finish(struct export_writer *w)
{
	const struct csv_writer *c = (const struct csv_writer *)w;

	if (!c->headed)
		fputs(COLUMNS "\r\n", export_out_file(w->out));
	return NULL;
}

static void csv_free(struct export_writer *w)
{
	struct csv_writer *c = (struct csv_writer *)w;

	text_buf_deinit(&c->row);
	text_buf_deinit(&c->cell);
	free(c);
}

struct export_writer *export_csv_new(void)
{
	static const struct view_ops ops = {
		.access = on_access,
		.capture = on_capture,
		.probe = on_probe,
		.call = on_call,
		.ret = on_return,
	};
	struct csv_writer *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->w = (struct export_writer){ .ops = &ops, .finish = export_csv_finish, .free = csv_free };
	return &c->w;
}
