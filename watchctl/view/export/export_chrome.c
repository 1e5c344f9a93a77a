/*
 * The Trace Event Format: {"traceEvents":[...]}, as chrome://tracing and Perfetto read it. Times are those of
 * CLOCK_MONOTONIC in microseconds, with three decimals.
 *
 *	access, captured stack, signal	an instant ("i") of its thread; what is known of it, in its args
 *	the value of a variable		a counter ("C"): one point where it changes
 *	call, return			"B" and "E" of its thread, always nested
 *	lost, note			an instant of everything ("g")
 *	range of a step recording	an instant of its process ("p")
 */
#include <inttypes.h>
#include <stdlib.h>

#include "watchctl/base/error.h"
#include "watchctl/view/export/export_chrome_impl.h"
#include "watchctl/view/export/export_curve.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/event/step_words.h"

/* Of a watch, in a thread if each has its own. */
struct track {
	uint64_t part;
	uint64_t value; /* reported last */
};

/* Args */

static void put_stack(struct chrome_writer *c, const struct view_frame *frame, size_t nframes,
		      enum walk_end end)
{
	if (c->w.opt->no_stack || !nframes)
		return;
	text_buf_empty(&c->text);
	export_text_stack(&c->text, frame, nframes, end);
	if (c->text.failed)
		export_fail(&c->w, &wc_enomem);
	else
		json_text(&c->json, "stack", text_buf_text(&c->text));
}

static void put_source(struct json *j, const char *file, unsigned int line)
{
	char text[512];

	text_source(file, line, text, sizeof(text));
	json_text_if(j, "source", text);
}

/* The name of an instant, of two texts. */
static struct json *begin_instant(struct chrome_writer *c, const char *first, const char *second,
				  const char *category, const char *scope)
{
	struct json *j;

	text_buf_empty(&c->text);
	export_text_clean(&c->text, first);
	text_buf_add(&c->text, " ");
	export_text_clean(&c->text, second);
	j = chrome_begin(c, c->text.failed ? first : text_buf_text(&c->text), category);
	json_text(j, "s", scope);
	json_open(j, "args", '{');
	return j;
}

static void end_instant(struct chrome_writer *c, int32_t pid, int32_t tid, uint64_t ns)
{
	json_close(&c->json, '}');
	json_close(&c->json, '}');
	chrome_put_event(c, "i", pid, tid, ns);
}

/* The value */

static bool number_text(const struct watch_event *e, unsigned int size, uint64_t raw, char *buf, size_t cap)
{
	struct value_number n;

	if (!export_curve_number(e, size, raw, &n))
		return false;
	if (n.kind == NUMBER_FLOAT)
		snprintf(buf, cap, "%.17g", n.f);
	else if (n.kind == NUMBER_SIGNED)
		snprintf(buf, cap, "%" PRId64, n.i);
	else
		snprintf(buf, cap, "%" PRIu64, n.u);
	return true;
}

static struct track *track_of(struct chrome_writer *c, uint32_t watch, int32_t tid)
{
	uint64_t key = (uint64_t)watch << 32 | (uint32_t)tid;
	struct track *t = map64_get(&c->tracks, key);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (!t || !map64_put(&c->tracks, key, t)) {
		free(t);
		export_fail(&c->w, &wc_enomem);
		return NULL;
	}
	return t;
}

/* A point of the curve, where it changes; @tid 0: of a variable that all threads share. */
static void put_value(struct chrome_writer *c, const struct watch_event *e, int32_t pid, int32_t tid,
		      unsigned int size, uint64_t raw, uint64_t ns)
{
	struct track *t = track_of(c, e->id, tid);
	char name[512], tail[80], number[40];
	struct json *j = &c->json;

	if (!t || (t->part == c->part && t->value == raw) ||
	    !number_text(e, size, raw, number, sizeof(number)))
		return;
	*t = (struct track){ .part = c->part, .value = raw };
	snprintf(name, sizeof(name), tid ? "%s of thread %d" : "%s", e->name, tid);
	json_open(j, NULL, '{');
	json_text(j, "name", name);
	json_close(j, '}');
	if (!j->line.failed)
		text_buf_cut(&j->line, j->line.len - 1);
	chrome_put_event(c, "C", pid, tid ? tid : pid, ns);
	snprintf(tail, sizeof(tail), ",\"args\":{\"value\":%s}}", number);
	chrome_put_text(c, tail);
}

/* Views */

static void on_process(void *ctx, const struct view_event *v)
{
	const struct process_event *p = &v->raw->process;
	struct chrome_writer *c = ctx;

	if (!c->pid)
		c->pid = p->pid;
	if (v->time.real_ns)
		c->real_offset = v->time.real_ns - v->time.mono_ns;
	chrome_in_thread(c, p->pid, 0, NULL);
	chrome_report_process(c, p->pid, p->exe && *p->exe ? text_base_name(p->exe) : p->comm);
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct chrome_writer *c = ctx;
	uint64_t raw;

	if (!export_curve_begin(&w->e, &raw))
		return;
	chrome_in_thread(c, c->pid, 0, NULL);
	put_value(c, &w->e, c->pid, 0, w->e.size, raw, time.mono_ns);
}

static void put_values(struct json *j, const struct view_access *a)
{
	json_text_if(j, "old", a->old_text);
	json_text_if(j, "new", a->new_text);
	if (a->raw->has_old)
		json_hex(j, "old_raw", a->raw->old_value);
	if (a->raw->old_uncertain)
		json_bool(j, "old_uncertain", true);
	if (a->raw->has_new)
		json_hex(j, "new_raw", a->raw->new_value);
}

static void put_place(struct json *j, const struct view_access *a)
{
	const struct location *l = a->location;
	char place[CELL_TEXT];

	if (!a->ip)
		return;
	text_place(l->module, l->module_offset, l->frame[l->nframes - 1].function, l->offset, a->ip, place,
		   sizeof(place));
	json_text(j, "at", place);
	put_source(j, l->frame[0].file, l->frame[0].line);
	json_text_if(j, "insn", a->insn);
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct chrome_writer *c = ctx;
	const struct access_event *e = a->raw;
	struct json *j;
	uint64_t raw;

	chrome_in_thread(c, e->pid, e->tid, a->comm);
	j = begin_instant(c, text_kind_name(a->kind), a->watch->e.name, "access", "t");
	json_text(j, "watch", a->watch->e.name);
	json_text(j, "kind", text_kind_name(a->kind));
	if (a->origin == ORIGIN_KERNEL)
		json_text(j, "origin", "kernel");
	put_values(j, a);
	put_place(j, a);
	if (e->displaced)
		json_bool(j, "displaced", true);
	put_stack(c, a->frame, a->nframes, a->walk_end);
	end_instant(c, e->pid, e->tid, a->time.mono_ns);
	if (export_curve_point(a, &raw))
		put_value(c, &a->watch->e, e->pid, a->watch->e.per_thread ? e->tid : 0, e->size, raw,
			  a->time.mono_ns);
}

static void on_capture(void *ctx, const struct view_capture *v)
{
	struct chrome_writer *c = ctx;
	struct json *j;

	chrome_in_thread(c, v->raw->pid, v->raw->tid, v->comm);
	j = begin_instant(c, "tag", v->tag->text, "stack", "t");
	json_text(j, "tag", v->tag->text);
	if (v->raw->has_value)
		json_hex(j, "value", v->raw->value);
	else if (v->raw->withheld)
		json_text(j, "value", view_withheld);
	if (v->nframes)
		put_source(j, v->frame[0].file, v->frame[0].line);
	put_stack(c, v->frame, v->nframes, v->walk_end);
	end_instant(c, v->raw->pid, v->raw->tid, v->time.mono_ns);
}

static void on_probe(void *ctx, const struct view_probe *v)
{
	struct chrome_writer *c = ctx;
	const struct view_probe_site *s = v->site;
	char place[CELL_TEXT];
	struct json *j;

	chrome_in_thread(c, v->raw->pid, v->raw->tid, v->comm);
	j = begin_instant(c, "probe", s->probe, "probe", "t");
	json_text(j, "probe", s->probe);
	json_text_if(j, "text", v->text);
	if (s->ip) {
		text_place(s->frame.module, s->frame.module_offset, s->frame.function, s->frame.offset, s->ip,
			   place, sizeof(place));
		json_text(j, "at", place);
		put_source(j, s->source.file, s->source.line);
	}
	json_text_if(j, "insn", s->insn);
	if (v->has_stack)
		put_stack(c, v->frame, v->nframes, v->walk_end);
	end_instant(c, v->raw->pid, v->raw->tid, v->time.mono_ns);
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct chrome_writer *c = ctx;
	struct json *j;

	chrome_in_thread(c, c->pid, 0, NULL);
	j = begin_instant(c, "lost", export_text_lost(w, l), "lost", "g");
	json_number(j, "count", l->count);
	json_text_if(j, "why", l->why);
	end_instant(c, c->pid, c->pid, time.mono_ns);
}

static void on_note(void *ctx, const struct view_event *v)
{
	const char *text = v->raw->note.text;
	struct chrome_writer *c = ctx;
	struct json *j;

	/* Without one, it would be an event long before the others. */
	if (!v->time.mono_ns)
		return;
	chrome_in_thread(c, c->pid, 0, NULL);
	j = begin_instant(c, "note:", text, "note", "g");
	json_text(j, "text", text);
	end_instant(c, c->pid, c->pid, v->time.mono_ns);
}

/* Of a step recording */

static void on_range(void *ctx, const struct view_event *v)
{
	const struct range_event *r = &v->raw->range;
	struct chrome_writer *c = ctx;
	struct json *j;

	chrome_in_thread(c, r->pid, r->tid, v->comm);
	j = begin_instant(c, "range", step_range_name(r->what), "range", "p");
	json_number(j, "occurrence", r->occurrence);
	end_instant(c, r->pid, r->tid, v->time.mono_ns);
}

static struct export_thread *thread_of(struct chrome_writer *c, int32_t pid, int32_t tid)
{
	struct export_thread *th = export_thread_get(&c->threads, pid, tid);

	if (!th)
		export_fail(&c->w, &wc_enomem);
	return th;
}

static void put_values_of(struct json *j, struct text_buf *t, const struct view_value *v, size_t n)
{
	char name[32];
	size_t i;

	for (i = 0; i < n; i++) {
		struct view_value bare = v[i];

		snprintf(name, sizeof(name), "%zu", i + 1);
		bare.name = NULL;
		text_buf_empty(t);
		export_text_args(t, &bare, 1);
		/* A parameter's name is text of the program: never a member's name as it is. */
		json_open(j, NULL, '{');
		json_text(j, "name", v[i].name && *v[i].name ? v[i].name : name);
		json_text(j, "value", t->failed ? "" : text_buf_text(t));
		json_close(j, '}');
	}
}

static void on_call(void *ctx, const struct view_call *v)
{
	struct chrome_writer *c = ctx;
	struct export_thread *th;
	struct json *j;
	size_t n;

	chrome_in_thread(c, v->raw->pid, v->raw->tid, v->comm);
	th = thread_of(c, v->raw->pid, v->raw->tid);
	if (!th)
		return;
	for (n = export_calls_ended_by(th, v); n; n--)
		chrome_end_call(c, th, "unknown", v->time.mono_ns);
	if (!export_calls_push(&c->threads, th, v)) {
		export_fail(&c->w, &wc_enomem);
		return;
	}
	j = chrome_begin(c, v->function->text, "call");
	json_open(j, "args", '{');
	json_number(j, "call", v->raw->call);
	json_text_if(j, "module", v->function->e.module);
	put_source(j, v->function->e.file, v->function->e.line);
	if (v->nargs) {
		json_open(j, "parameters", '[');
		put_values_of(j, &c->text, v->arg, v->nargs);
		json_close(j, ']');
	}
	json_close(j, '}');
	json_close(j, '}');
	chrome_put_event(c, "B", th->pid, th->tid, export_thread_time(th, v->time.mono_ns));
}

static void on_return(void *ctx, const struct view_return *v)
{
	struct chrome_writer *c = ctx;
	struct export_thread *th = thread_of(c, v->raw->pid, v->raw->tid);
	size_t n = th ? export_calls_ended_with(th, v->raw->call) : 0;
	struct json *j = &c->json;
	char name[32];

	if (!n)
		return;
	for (; n > 1; n--)
		chrome_end_call(c, th, "unknown", v->time.mono_ns);
	chrome_begin(c, th->open[th->nopen - 1].function->text, "call");
	json_open(j, "args", '{');
	if (v->result) {
		text_buf_empty(&c->text);
		export_text_args(&c->text, v->result, 1);
		json_text(j, "returned", c->text.failed ? "" : text_buf_text(&c->text));
	}
	if (v->raw->how != RETURN_RETURNED)
		json_text(j, "ended", step_how_name(v->raw->how));
	if (v->raw->has_error) {
		step_error_name(v->raw->error, name, sizeof(name));
		json_text(j, "errno", name);
	}
	json_close(j, '}');
	json_close(j, '}');
	chrome_put_event(c, "E", th->pid, th->tid, export_thread_time(th, v->time.mono_ns));
	export_calls_pop(&c->threads, th);
}

static void on_signal(void *ctx, const struct view_signal *s)
{
	struct chrome_writer *c = ctx;
	struct json *j;
	char name[32];

	chrome_in_thread(c, s->raw->pid, s->raw->tid, s->comm);
	step_signal_name(s->raw->signal, name, sizeof(name));
	j = begin_instant(c, "signal", name, "signal", "t");
	json_signed(j, "code", s->raw->code);
	put_stack(c, s->frame, s->nframes, WALK_END_COMPLETE);
	end_instant(c, s->raw->pid, s->raw->tid, s->time.mono_ns);
}

static void on_blocked(void *ctx, const struct view_blocked *s)
{
	struct chrome_writer *c = ctx;

	chrome_in_thread(c, s->raw->pid, s->raw->tid, s->comm);
	begin_instant(c, "stands in", s->nopen ? s->open[s->nopen - 1].function->text : "no call", "stood",
		      "t");
	put_stack(c, s->frame, s->nframes, s->walk_end);
	end_instant(c, s->raw->pid, s->raw->tid, s->time.mono_ns);
}

/* The ending */

static struct wc_error *export_chrome_finish(struct export_writer *w)
{
	struct chrome_writer *c = (struct chrome_writer *)w;

	chrome_finish(c);
	if (c->large_reported && w->out)
		fprintf(stderr,
			"watchctl: the output is larger than the viewers accept (%" PRIu64
			" MB): use -o FILE, which "
			"writes several files\n",
			c->written / 1000000);
	return NULL;
}

static void chrome_free(struct export_writer *w)
{
	struct chrome_writer *c = (struct chrome_writer *)w;

	json_deinit(&c->json);
	text_buf_deinit(&c->text);
	export_threads_deinit(&c->threads);
	map64_deinit_values(&c->reported, free);
	map64_deinit_values(&c->tracks, free);
	free(c);
}

struct export_writer *export_chrome_new(void)
{
	static const struct view_subscription events[] = {
		{ EVENT_PROCESS, on_process },
		{ EVENT_NOTE, on_note },
		{ EVENT_RANGE, on_range },
		{ 0 },
	};
	static const struct view_ops ops = {
		.events = events,
		.armed = on_armed,
		.access = on_access,
		.capture = on_capture,
		.probe = on_probe,
		.lost = on_lost,
		.call = on_call,
		.ret = on_return,
		.signal = on_signal,
		.blocked = on_blocked,
	};
	struct chrome_writer *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->w = (struct export_writer){ .ops = &ops, .finish = export_chrome_finish, .free = chrome_free };
	return &c->w;
}
