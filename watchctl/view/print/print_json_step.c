/* The objects of step recordings. */
#include <string.h>

#include "watchctl/base/syscall_name.h"
#include "watchctl/view/print/print_json.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/step_totals.h"
#include "watchctl/view/event/input_words.h"
#include "watchctl/view/event/step_words.h"

#define STRING_MAX CALL_POINTEE_MAX
#define OPEN_MAX 256 /* calls reported a thread that stands */

static void put_head(struct printer *p, const char *type, struct view_time time, int32_t pid, int32_t tid,
		     const char *comm)
{
	struct json *j = &p->json;

	print_json_begin(p, type);
	print_json_time(p, time);
	json_signed(j, "pid", pid);
	json_signed(j, "tid", tid);
	json_text_if(j, "comm", comm);
}

static void put_function(struct json *j, const struct function_event *f)
{
	json_text_if(j, "function", f->name);
	json_text_if(j, "module", f->module);
	if (f->build_id_len)
		json_bytes(j, "build_id", f->build_id, f->build_id_len);
	if (f->module && f->address)
		json_hex(j, "module_offset", f->address);
	print_json_source(j, f->file, f->line);
	if (f->flags & FUNCTION_OVER)
		json_bool(j, "over", true);
	if (f->flags & FUNCTION_NO_TYPES)
		json_bool(j, "untyped", true);
	if (f->flags & FUNCTION_PROTOTYPE)
		json_bool(j, "prototype", true);
}

static const char *state_name(enum value_state state)
{
	static const char *const name[] = {
		[VALUE_OK] = "ok",
		[VALUE_OPTIMIZED_OUT] = "optimized_out",
		[VALUE_UNREADABLE] = "unreadable",
		[VALUE_CUT] = "cut",
		[VALUE_NONE] = "not_recorded",
		[VALUE_NULL] = "null",
		[VALUE_WITHHELD] = "withheld",
	};

	return name[state];
}

static bool is_pointer(const struct type_event *t)
{
	return t->kind == TYPE_POINTER || t->kind == TYPE_STRING;
}

/* The characters themselves, as far as JSON can have them. */
static void put_string(struct json *j, const struct call_value *v)
{
	char text[STRING_MAX + 1];
	size_t n = v->to_len < STRING_MAX ? v->to_len : STRING_MAX;

	if (!n)
		text[0] = '\0';
	else
		memcpy(text, v->to, n);
	text[n] = '\0';
	json_text(j, "string", text);
}

static void put_pointee(struct json *j, const struct view_value *v)
{
	bool shown = v->v.to_state == VALUE_OK || v->v.to_state == VALUE_CUT;

	if (v->v.to_state != VALUE_OK)
		json_text(j, "to_state", state_name(v->v.to_state));
	if (shown && v->type->kind == TYPE_STRING)
		put_string(j, &v->v);
	else if (shown)
		json_text_if(j, "to", v->to_text);
	/* The text may leave some out. */
	if (shown && v->to_is_bytes)
		json_bytes(j, "to_bytes", v->v.to, v->v.to_len);
}

static void put_value(struct json *j, const char *name, const struct view_value *v)
{
	uint64_t raw = 0;

	json_open(j, name, '{');
	json_text_if(j, "name", v->name);
	if (v->type)
		json_text_if(j, "type", v->type->name);
	if (v->v.state != VALUE_OK) {
		json_text(j, "state", state_name(v->v.state));
	} else if (v->v.size && v->v.size <= sizeof(raw)) {
		memcpy(&raw, v->v.bytes, v->v.size);
		json_hex(j, "value", raw);
	} else if (v->v.size) {
		json_bytes(j, "bytes", v->v.bytes, v->v.size);
	}
	json_text_if(j, "text", v->text);
	if (v->is_unused)
		json_bool(j, "unused", true);
	if (v->v.state == VALUE_OK && v->type && is_pointer(v->type))
		put_pointee(j, v);
	json_close(j, '}');
}

void print_json_call(void *ctx, const struct view_call *c)
{
	struct printer *p = ctx;
	struct json *j = &p->json;
	size_t i;

	put_head(p, "call", c->time, c->raw->pid, c->raw->tid, c->comm);
	json_number(j, "call", c->raw->call);
	if (c->raw->parent)
		json_number(j, "parent", c->raw->parent);
	json_number(j, "depth", c->raw->depth);
	put_function(j, &c->function->e);
	if (c->raw->flags & CALL_TAIL)
		json_bool(j, "tail", true);
	if (c->raw->flags & CALL_CALLBACK)
		json_bool(j, "callback", true);
	if (c->raw->flags & CALL_SIGNAL)
		json_bool(j, "signal_handler", true);
	if (c->raw->flags & CALL_FIRST)
		json_bool(j, "first", true);
	if (c->raw->sp || c->raw->nframes || c->raw->flags & CALL_TAIL)
		json_hex(j, "sp", c->raw->sp);
	json_open(j, "args", '[');
	for (i = 0; i < c->nargs; i++)
		put_value(j, NULL, &c->arg[i]);
	json_close(j, ']');
	if (c->nargs < c->function->e.nparams)
		json_bool(j, "args_incomplete", true);
	if (!p->opt.no_stack)
		print_json_stack(j, c->frame, c->nframes, c->walk_end);
	print_json_end(p);
}

static void put_changes(struct json *j, const struct view_return *r)
{
	if (!r->nchanges)
		return;
	json_open(j, "changes", '[');
	for (size_t i = 0; i < r->nchanges; i++) {
		json_open(j, NULL, '{');
		json_text(j, "name", r->change[i].label);
		json_text(j, "of", r->change[i].is_variable ? "variable" : "parameter");
		json_text(j, "value", r->change[i].text);
		json_close(j, '}');
	}
	json_close(j, ']');
	if (r->more_changes)
		json_bool(j, "changes_left_out", true);
}

void print_json_return(void *ctx, const struct view_return *r)
{
	struct printer *p = ctx;
	struct json *j = &p->json;
	char name[32];

	put_head(p, "return", r->time, r->raw->pid, r->raw->tid, r->comm);
	json_number(j, "call", r->raw->call);
	json_text_if(j, "function", r->function->e.name);
	json_text(j, "how", step_how_name(r->raw->how));
	if (r->raw->how == RETURN_UNKNOWN)
		json_bool(j, "derived", true);
	if (r->result)
		put_value(j, "ret", r->result);
	if (r->raw->has_error) {
		step_error_name(r->raw->error, name, sizeof(name));
		json_text(j, "errno", name);
		json_signed(j, "errno_number", r->raw->error);
	}
	put_changes(j, r);
	if (r->begun)
		json_number(j, "duration_ns", r->duration_ns);
	print_json_end(p);
}

void print_json_recording(void *ctx, const struct view_event *v)
{
	const struct recording_event *r = &v->raw->recording;
	struct printer *p = ctx;

	print_json_begin(p, "recording");
	print_json_time(p, v->time);
	json_text_if(&p->json, "mover", r->stepper);
	json_text_if(&p->json, "planner", r->planner);
	json_text_if(&p->json, "range", r->range);
	json_text_if(&p->json, "filters", r->filters);
	json_bool(&p->json, "instructions", r->instructions);
	if (r->withheld)
		json_text(&p->json, "withheld", r->withheld == RECORDING_WITHHELD_ALL ? "all" : "some");
	print_json_end(p);
}

void print_json_thread(void *ctx, const struct view_event *v)
{
	const struct thread_event *t = &v->raw->thread;
	struct printer *p = ctx;
	struct json *j = &p->json;

	put_head(p, "thread", v->time, t->pid, t->tid, t->comm);
	if (t->creator)
		json_signed(j, "creator", t->creator);
	if (t->creating_call)
		json_number(j, "creating_call", t->creating_call);
	if (t->stack_end) {
		json_hex(j, "stack_start", t->stack_start);
		json_hex(j, "stack_end", t->stack_end);
	}
	print_json_end(p);
}

static void put_inside(struct json *j, uint64_t call)
{
	if (call)
		json_number(j, "call", call);
}

void print_json_step(void *ctx, const struct view_step *s)
{
	struct printer *p = ctx;
	struct json *j = &p->json;

	put_head(p, "step", s->time, s->raw->pid, s->raw->tid, s->comm);
	put_inside(j, s->raw->call);
	json_hex(j, "ip", s->raw->ip);
	if (s->nframes)
		print_json_place(j, &s->frame[s->nframes - 1], &s->frame[0]);
	print_json_end(p);
}

void print_json_signal(void *ctx, const struct view_signal *s)
{
	struct printer *p = ctx;
	struct json *j = &p->json;
	char name[32];

	put_head(p, "signal", s->time, s->raw->pid, s->raw->tid, s->comm);
	put_inside(j, s->raw->call);
	step_signal_name(s->raw->signal, name, sizeof(name));
	json_text(j, "signal", name);
	json_signed(j, "number", s->raw->signal);
	json_signed(j, "code", s->raw->code);
	json_hex(j, "ip", s->raw->ip);
	if (s->nframes)
		print_json_place(j, &s->frame[s->nframes - 1], &s->frame[0]);
	print_json_end(p);
}

static void put_bytes(struct json *j, const struct input_event *e)
{
	if (e->withheld) {
		json_bool(j, "withheld", true);
		return;
	}
	if (e->hashed)
		json_hex(j, "hash", e->hash);
	if (e->hashed < e->size)
		json_number(j, "hashed", e->hashed);
	if (e->len)
		json_bytes(j, "bytes", e->bytes, e->len);
}

void print_json_input(void *ctx, const struct view_input *i)
{
	struct printer *p = ctx;
	struct json *j = &p->json;
	const struct input_event *e = i->raw;
	char text[CELL_TEXT];

	put_head(p, "input", i->time, e->pid, e->tid, i->comm);
	put_inside(j, e->call);
	json_text(j, "kind", input_kind_name(e->kind));
	json_text_if(j, "syscall", e->syscall >= 0 ? syscall_name(e->syscall) : NULL);
	json_text_if(j, "name", e->name);
	if (e->fd >= 0)
		json_signed(j, "fd", e->fd);
	if (e->syscall >= 0)
		json_signed(j, "result", e->result);
	json_number(j, "offset", e->offset);
	json_number(j, "size", e->size);
	put_bytes(j, e);
	input_text(e, text, sizeof(text));
	json_text(j, "text", text);
	print_json_end(p);
}

void print_json_blocked(void *ctx, const struct view_blocked *s)
{
	struct printer *p = ctx;
	struct json *j = &p->json;
	const char *name = s->raw->syscall >= 0 ? syscall_name(s->raw->syscall) : NULL;
	size_t i;

	put_head(p, "stood", s->time, s->raw->pid, s->raw->tid, s->comm);
	put_inside(j, s->raw->call);
	if (name)
		json_text(j, "syscall", name);
	else if (s->raw->syscall >= 0)
		json_signed(j, "syscall", s->raw->syscall);
	json_open(j, "open", '[');
	for (i = 0; i < s->nopen && i < OPEN_MAX; i++) {
		const struct view_open_call *o = &s->open[s->nopen - 1 - i];

		json_open(j, NULL, '{');
		json_number(j, "call", o->call);
		json_text_if(j, "function", o->function->e.name);
		json_number(j, "open_ns", s->time.mono_ns > o->time_ns ? s->time.mono_ns - o->time_ns : 0);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_number(j, "open_calls", s->nopen);
	print_json_stack(j, s->frame, s->nframes, s->walk_end);
	print_json_end(p);
}

/* Totals */

static void put_row(struct printer *p, const struct step_function_row *r)
{
	struct json *j = &p->json;
	int how;

	print_json_begin(p, "function_total");
	put_function(j, &r->function->e);
	json_number(j, "calls", r->calls);
	json_number(j, "errors", r->errors);
	json_open(j, "ended", '{');
	for (how = RETURN_RETURNED; how <= RETURN_UNKNOWN; how++)
		if (r->ended[how])
			json_number(j, step_how_name((enum return_how)how), r->ended[how]);
	json_close(j, '}');
	json_number(j, "timed", r->timed);
	json_number(j, "total_ns", r->total_ns);
	json_number(j, "self_ns", r->self_ns);
	json_number(j, "p99_ns", step_row_quantile(r, 990));
	json_number(j, "max_ns", r->max_ns);
	print_json_end(p);
}

static void put_occurrence(struct printer *p, const struct step_occurrence *o)
{
	struct json *j = &p->json;

	print_json_begin(p, "occurrence");
	json_number(j, "occurrence", o->number);
	json_signed(j, "pid", o->pid);
	json_signed(j, "tid", o->tid);
	json_text_if(j, "comm", o->comm);
	json_number(j, "begin_ns", o->begin.mono_ns);
	if (o->what != RANGE_BEGIN) {
		json_number(j, "end_ns", o->end.mono_ns);
		json_text(j, "ended", step_range_name(o->what));
	}
	json_number(j, "calls", o->calls);
	print_json_end(p);
}

void print_json_steps(void *ctx, const struct step_totals *t)
{
	struct printer *p = ctx;
	struct json *j = &p->json;
	size_t i;

	if (!t->reported)
		return;
	for (i = 0; i < t->noccurrences; i++)
		put_occurrence(p, &t->occurrence[i]);
	for (i = 0; i < t->nfunctions; i++)
		put_row(p, t->function[i]);
	print_json_begin(p, "step_summary");
	json_number(j, "calls", t->calls);
	json_number(j, "ended", t->ended);
	json_number(j, "functions", t->nfunctions);
	json_number(j, "threads", t->nthreads);
	json_number(j, "occurrences", t->noccurrences);
	json_number(j, "instructions", t->steps);
	if (t->incomplete)
		json_bool(j, "incomplete", true);
	print_json_end(p);
}
