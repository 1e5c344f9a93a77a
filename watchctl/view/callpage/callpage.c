/* Collects: each call with its texts, and what happened beside them. */
#include "watchctl/view/callpage/callpage.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/syscall_name.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/flow/flow_stack_tag.h"
#include "watchctl/view/callpage/callpage_impl.h"
#include "watchctl/view/event/step_words.h"
#include "watchctl/view/words/view_words.h"

#define FRAME_TEXT 1100
#define FRAMES_SHOWN 64

/* The first text that is told stays. */
static void keep_first(struct callpage *p, char **to, const char *text)
{
	if (*to || !text)
		return;
	*to = strdup(text);
	p->no_memory |= !*to;
}

static uint32_t text(struct callpage *p, const char *s)
{
	bool ok = true;
	uint32_t number = callpage_text(&p->texts, s, &ok);

	p->no_memory |= !ok;
	return number;
}

static uint32_t thread_of(struct callpage *p, int32_t pid, int32_t tid, const char *comm)
{
	bool ok = true;
	uint32_t number = page_thread(&p->tables, pid, tid, comm, &ok);

	p->no_memory |= !ok;
	return number;
}

/* PAGE_REST: there is no room for one more. */
static uint32_t function_of(struct callpage *p, const struct view_function *f)
{
	void *known = map64_get(&p->by_function, (uintptr_t)f);
	struct callpage_function fresh = { .f = f };

	if (known)
		return (uint32_t)((uintptr_t)known - 1);
	if (p->nfunctions >= CALLPAGE_FUNCTIONS)
		return PAGE_REST;
	if (vec_push(p->function, p->nfunctions, p->function_cap, fresh) &&
	    map64_put(&p->by_function, (uintptr_t)f, (void *)p->nfunctions))
		return (uint32_t)p->nfunctions - 1;
	p->no_memory = true;
	return PAGE_REST;
}

/* Types are known where values are, and the same for each call. */
static void keep_types(struct callpage *p, struct callpage_function *f, const struct view_call *c)
{
	uint32_t *bigger;

	if (c->nargs <= f->param_types)
		return;
	bigger = reallocarray(f->param_type, c->nargs, sizeof(*bigger));
	if (!bigger) {
		p->no_memory = true;
		return;
	}
	f->param_type = bigger;
	for (; f->param_types < c->nargs; f->param_types++) {
		const struct type_event *t = c->arg[f->param_types].type;

		f->param_type[f->param_types] = text(p, t ? t->name : NULL);
	}
}

/* Calls */

static void frame_text(const struct view_frame *f, char *buf, size_t cap)
{
	char place[CELL_TEXT], source[CELL_TEXT];

	text_place(f->module, f->module_offset, f->function, f->inlined ? 0 : f->offset, f->ip, place,
		   sizeof(place));
	text_source(f->file, f->line, source, sizeof(source));
	snprintf(buf, cap, "%s%s%s", place, *source ? "  " : "", source);
}

/* Of a call that is called from outside of what was recorded, by whom. */
static void keep_callers(struct callpage *p, const struct view_call *c)
{
	struct callpage_outer o = { .call = (uint32_t)p->kept.n - 1 };
	struct text_buf lines = { 0 };
	char line[FRAME_TEXT];
	size_t i;

	if (!c->nframes || p->nouter >= CALLPAGE_OUTER)
		return;
	for (i = 0; i < c->nframes && i < FRAMES_SHOWN; i++) {
		frame_text(&c->frame[i], line, sizeof(line));
		text_buf_printf(&lines, "%s%s", i ? "\n" : "", line);
	}
	if (text_walk_end(c->walk_end))
		text_buf_printf(&lines, "\n(%s)", text_walk_end(c->walk_end));
	o.text = text(p, text_buf_text(&lines));
	p->no_memory |= lines.failed || !vec_push(p->outer, p->nouter, p->outer_cap, o);
	text_buf_deinit(&lines);
}

static void keep_call(struct callpage *p, const struct view_call *c, struct callpage_call *call)
{
	struct callpage_function *f = &p->function[call->function];
	uint32_t args[FUNCTION_PARAMS_MAX];
	size_t n = p->kept.n, i;

	call->nargs = (uint8_t)(c->nargs < FUNCTION_PARAMS_MAX ? c->nargs : FUNCTION_PARAMS_MAX);
	f->calls++;
	if (n < p->kept.max) {
		keep_types(p, f, c);
		for (i = 0; i < call->nargs; i++)
			args[i] = text(p, c->arg[i].text);
	}
	p->no_memory |= !callpage_calls_begin(&p->kept, call, args);
	if (p->kept.n > n && call->depth == 0)
		keep_callers(p, c);
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct callpage *p = ctx;
	struct callpage_call call = { .number = c->raw->call,
				      .begin_ns = page_clock_ns(&p->clock, c->time),
				      .thread = thread_of(p, c->raw->pid, c->raw->tid, c->comm),
				      .function = function_of(p, c->function),
				      .depth = c->depth,
				      .flags = c->raw->flags };

	p->calls++;
	if (call.thread == PAGE_REST || call.function == PAGE_REST)
		p->kept.left_out++;
	else
		keep_call(p, c, &call);
}

/* "-1 EIO (Input/output error)" */
static uint32_t result_text(struct callpage *p, const struct view_return *r)
{
	const char *words = r->raw->has_error ? strerrordesc_np(r->raw->error) : NULL;
	const char *value = r->result ? r->result->text : NULL;
	struct text_buf all = { 0 };
	uint32_t number;
	char name[32];

	if (!r->raw->has_error)
		return text(p, value);
	step_error_name(r->raw->error, name, sizeof(name));
	text_buf_printf(&all, words ? "%s%s%s (%s)" : "%s%s%s", value ? value : "", value ? " " : "", name,
			words);
	p->no_memory |= all.failed;
	number = text(p, text_buf_text(&all));
	text_buf_deinit(&all);
	return number;
}

static void on_return(void *ctx, const struct view_return *r)
{
	struct callpage *p = ctx;
	uint64_t ns = page_clock_ns(&p->clock, r->time);
	uint32_t thread = thread_of(p, r->raw->pid, r->raw->tid, r->comm);
	struct callpage_call *call =
		r->begun ? callpage_calls_end(&p->kept, thread, r->depth, r->raw->call) : NULL;
	struct callpage_function *f;

	if (!call)
		return;
	f = &p->function[call->function];
	if (r->result && r->result->type && !f->return_type)
		f->return_type = text(p, r->result->type->name);
	call->end_ns = ns ? ns : 1;
	call->how = (uint8_t)r->raw->how;
	call->result = result_text(p, r);
}

/* What happens beside calls */

static void keep_mark(struct callpage *p, uint32_t thread, uint64_t ns, uint64_t call, const char *words)
{
	struct callpage_mark m = { .thread = thread, .ns = ns, .call = call };

	if (thread == PAGE_REST || p->nmarks >= CALLPAGE_MARKS) {
		p->marks_left_out++;
		return;
	}
	m.text = text(p, words);
	p->no_memory |= !vec_push(p->mark, p->nmarks, p->mark_cap, m);
}

static void on_signal(void *ctx, const struct view_signal *s)
{
	struct callpage *p = ctx;
	char name[32], frame[FRAME_TEXT] = "", words[FRAME_TEXT + 64];

	step_signal_name(s->raw->signal, name, sizeof(name));
	if (s->nframes)
		frame_text(&s->frame[0], frame, sizeof(frame));
	snprintf(words, sizeof(words), "%s%s%s", name, *frame ? " at " : "", frame);
	keep_mark(p, thread_of(p, s->raw->pid, s->raw->tid, s->comm), page_clock_ns(&p->clock, s->time),
		  s->raw->call, words);
}

static void on_blocked(void *ctx, const struct view_blocked *s)
{
	const char *name = s->raw->syscall >= 0 ? syscall_name(s->raw->syscall) : NULL;
	struct callpage *p = ctx;
	char words[64];

	snprintf(words, sizeof(words), "blocked%s%s", name ? " in " : "", name ? name : "");
	keep_mark(p, thread_of(p, s->raw->pid, s->raw->tid, s->comm), page_clock_ns(&p->clock, s->time),
		  s->raw->call, words);
}

static void keep_note(struct callpage *p, const char *words, struct view_time time, uint64_t lost)
{
	struct callpage_note n = { .ns = page_clock_ns(&p->clock, time), .lost = lost };

	if (p->nnotes >= CALLPAGE_NOTES) {
		p->notes_left_out++;
		return;
	}
	n.text = strdup(words);
	if (n.text && vec_push(p->note, p->nnotes, p->note_cap, n))
		return;
	free(n.text);
	p->no_memory = true;
}

static void on_note(void *ctx, const struct view_event *v)
{
	keep_note(ctx, v->raw->note.text, v->time, 0);
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	keep_note(ctx, l->why ? l->why : "", time, l->count);
}

static void on_process(void *ctx, const struct view_event *v)
{
	const struct process_event *e = &v->raw->process;
	struct callpage *p = ctx;

	page_clock_ns(&p->clock, v->time);
	if (!p->processes++)
		p->pid = e->pid;
	keep_first(p, &p->cmdline, e->cmdline ? e->cmdline : e->exe);
	keep_first(p, &p->host, e->host);
}

static void on_recording(void *ctx, const struct view_event *v)
{
	const struct recording_event *r = &v->raw->recording;
	struct callpage *p = ctx;

	page_clock_ns(&p->clock, v->time);
	keep_first(p, &p->range, r->range ? r->range : "");
	keep_first(p, &p->filters, r->filters);
	keep_first(p, &p->stepper, r->stepper);
}

static void on_range(void *ctx, const struct view_event *v)
{
	const struct range_event *r = &v->raw->range;
	struct callpage *p = ctx;

	page_clock_ns(&p->clock, v->time);
	thread_of(p, r->pid, r->tid, v->comm);
	if (r->what == RANGE_LIMIT || r->what == RANGE_STUCK)
		keep_note(p, step_range_text(r->what), v->time, 0);
}

static void on_step(void *ctx, const struct view_step *s)
{
	((struct callpage *)ctx)->steps++;
}

static void on_access(void *ctx, const struct view_access *a)
{
	((struct callpage *)ctx)->accesses++;
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct callpage *p = ctx;

	p->captures++;
	p->wait_stacks += c->tag->name && !strcmp(c->tag->name, FLOW_STACK_TAG);
}

struct callpage *callpage_new(struct annotate *a, const struct callpage_options *o)
{
	static const struct view_subscription events[] = {
		{ EVENT_PROCESS, on_process },
		{ EVENT_NOTE, on_note },
		{ EVENT_RECORDING, on_recording },
		{ EVENT_RANGE, on_range },
		{ 0 },
	};
	static const struct view_ops ops = { .events = events,
					     .access = on_access,
					     .capture = on_capture,
					     .lost = on_lost,
					     .call = on_call,
					     .ret = on_return,
					     .step = on_step,
					     .signal = on_signal,
					     .blocked = on_blocked };
	struct callpage *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->opt = *o;
	p->kept.max = o->calls ? o->calls : CALLPAGE_CALLS;
	p->texts.max = o->text_bytes ? o->text_bytes : CALLPAGE_TEXT_BYTES;
	annotate_add_view(a, (struct view){ .ops = &ops, .ctx = p });
	return p;
}

bool callpage_has_calls(const struct callpage *p)
{
	return (p->range || p->calls) && !p->accesses && !p->captures;
}

bool callpage_is_empty(const struct callpage *p)
{
	return !p->range && !p->calls && !p->accesses && p->captures == p->wait_stacks;
}

void callpage_free(struct callpage *p)
{
	size_t i;

	if (!p)
		return;
	for (i = 0; i < p->nfunctions; i++)
		free(p->function[i].param_type);
	for (i = 0; i < p->nnotes; i++)
		free(p->note[i].text);
	free(p->function);
	free(p->note);
	free(p->mark);
	free(p->outer);
	free(p->range);
	free(p->filters);
	free(p->stepper);
	free(p->cmdline);
	free(p->host);
	map64_deinit(&p->by_function);
	page_tables_deinit(&p->tables);
	callpage_texts_deinit(&p->texts);
	callpage_calls_deinit(&p->kept);
	free(p);
}

void callpage_freep(struct callpage **p)
{
	callpage_free(*p);
}
