/*
 * Perfetto's own trace format. Times are those of CLOCK_MONOTONIC in nanoseconds.
 *
 *	access, captured stack, probe,	an instant on the track of its thread; what is known of it is annotated
 *	signal, blocked thread
 *	the value of a variable		a counter's track: one point where it changes
 *	call, return			begin and end of a slice of its thread, always nested
 *	range of a step recording	an instant on the track of its process
 *	lost, note			an instant on the track of the first process
 */
#include <stdlib.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/view/event/step_words.h"
#include "watchctl/view/export/export_calls.h"
#include "watchctl/view/export/export_curve.h"
#include "watchctl/view/export/export_perfetto_impl.h"
#include "watchctl/view/export/export_text.h"
#include "watchctl/view/words/view_words.h"

/* Of a watch in a process, or in a thread if each has its own. */
struct curve {
	uint64_t track;
	uint64_t value; /* reported last */
};

struct perfetto_writer {
	struct export_writer w;
	struct perfetto_file *file;
	struct export_threads threads;
	struct map64 curves; /* watch, pid or tid -> struct curve */
	int32_t pid;	     /* of the first process; 0: none reported yet */
	uint64_t last_ns;    /* of all events */
};

/* The track of what happens at @time in the thread; @tid 0: in the process. */
static uint64_t track_of(struct perfetto_writer *p, int32_t pid, int32_t tid, const char *comm,
			 struct view_time time)
{
	if (time.mono_ns > p->last_ns)
		p->last_ns = time.mono_ns;
	perfetto_begin(p->file, time);
	perfetto_track(p->file, pid, 0, NULL);
	return perfetto_track(p->file, pid, tid, tid ? comm : NULL);
}

/* Annotations */

static void arg_stack(struct perfetto_writer *p, const struct view_frame *frame, size_t nframes,
		      enum walk_end end)
{
	if (!p->w.opt->no_stack && nframes)
		export_text_stack(perfetto_arg_begin(p->file, PERFETTO_ARG_STACK), frame, nframes, end);
}

static void arg_source(struct perfetto_writer *p, const char *file, unsigned int line)
{
	char text[CELL_TEXT];

	text_source(file, line, text, sizeof(text));
	perfetto_arg_text(p->file, PERFETTO_ARG_SOURCE, text);
}

/* The frame's place and the instruction there. */
static void arg_place(struct perfetto_writer *p, const char *module, uint64_t module_offset,
		      const char *function, uint64_t offset, uint64_t ip)
{
	char place[CELL_TEXT];

	text_place(module, module_offset, function, offset, ip, place, sizeof(place));
	perfetto_arg_text(p->file, PERFETTO_ARG_AT, place);
}

/* Counters */

static struct curve *curve_of(struct perfetto_writer *p, const struct watch_event *e, int32_t pid,
			      int32_t tid, uint64_t parent, bool *is_new)
{
	uint64_t key = (uint64_t)e->id << 32 | (uint32_t)(tid ? tid : pid);
	struct curve *c = map64_get(&p->curves, key);
	char name[512];

	*is_new = !c;
	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (!c || !map64_put(&p->curves, key, c)) {
		free(c);
		export_fail(&p->w, &wc_enomem);
		return NULL;
	}
	snprintf(name, sizeof(name), tid ? "%s of thread %d" : "%s", e->name, tid);
	c->track = perfetto_counter(p->file, name, parent);
	return c;
}

/* A point of the curve, where it changes; @tid 0: of a variable that all threads share. */
static void put_value(struct perfetto_writer *p, const struct watch_event *e, int32_t pid, int32_t tid,
		      unsigned int size, uint64_t raw, struct view_time time)
{
	uint64_t parent = track_of(p, pid, tid, NULL, time);
	struct value_number n;
	struct curve *c;
	bool is_new;

	if (!export_curve_number(e, size, raw, &n))
		return;
	c = curve_of(p, e, pid, tid, parent, &is_new);
	if (!c || (!is_new && c->value == raw))
		return;
	c->value = raw;
	perfetto_put_value(p->file, c->track, &n, time.mono_ns);
}

/* Views */

static void on_process(void *ctx, const struct view_event *v)
{
	const struct process_event *e = &v->raw->process;
	struct perfetto_writer *p = ctx;

	if (!p->pid)
		p->pid = e->pid;
	perfetto_begin(p->file, v->time);
	perfetto_track(p->file, e->pid, 0, e->exe && *e->exe ? text_base_name(e->exe) : e->comm);
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct perfetto_writer *p = ctx;
	uint64_t raw;

	if (export_curve_begin(&w->e, &raw))
		put_value(p, &w->e, p->pid, 0, w->e.size, raw, time);
}

static void on_access(void *ctx, const struct view_access *a)
{
	const struct access_event *e = a->raw;
	const struct location *l = a->location;
	struct perfetto_writer *p = ctx;
	uint64_t track = track_of(p, e->pid, e->tid, a->comm, a->time), raw;

	perfetto_arg_text(p->file, PERFETTO_ARG_WATCH, a->watch->e.name);
	perfetto_arg_text(p->file, PERFETTO_ARG_KIND, text_kind_name(a->kind));
	perfetto_arg_text(p->file, PERFETTO_ARG_ORIGIN, a->origin == ORIGIN_KERNEL ? "kernel" : NULL);
	perfetto_arg_text(p->file, PERFETTO_ARG_OLD, a->old_text);
	perfetto_arg_text(p->file, PERFETTO_ARG_NEW, a->new_text);
	if (e->has_old)
		perfetto_arg_hex(p->file, PERFETTO_ARG_OLD_RAW, e->old_value);
	if (e->old_uncertain)
		perfetto_arg_true(p->file, PERFETTO_ARG_OLD_UNCERTAIN);
	if (e->has_new)
		perfetto_arg_hex(p->file, PERFETTO_ARG_NEW_RAW, e->new_value);
	if (a->ip) {
		arg_place(p, l->module, l->module_offset, l->frame[l->nframes - 1].function, l->offset,
			  a->ip);
		arg_source(p, l->frame[0].file, l->frame[0].line);
		perfetto_arg_text(p->file, PERFETTO_ARG_INSN, a->insn);
	}
	if (e->displaced)
		perfetto_arg_true(p->file, PERFETTO_ARG_DISPLACED);
	arg_stack(p, a->frame, a->nframes, a->walk_end);
	perfetto_put_instant(p->file, track, PERFETTO_ACCESS, text_kind_name(a->kind), a->watch->e.name,
			     a->time.mono_ns);
	if (export_curve_point(a, &raw))
		put_value(p, &a->watch->e, e->pid, a->watch->e.per_thread ? e->tid : 0, e->size, raw,
			  a->time);
}

static void on_capture(void *ctx, const struct view_capture *v)
{
	struct perfetto_writer *p = ctx;
	uint64_t track = track_of(p, v->raw->pid, v->raw->tid, v->comm, v->time);

	perfetto_arg_text(p->file, PERFETTO_ARG_TAG, v->tag->text);
	if (v->raw->has_value)
		perfetto_arg_hex(p->file, PERFETTO_ARG_VALUE, v->raw->value);
	else if (v->raw->withheld)
		perfetto_arg_text(p->file, PERFETTO_ARG_VALUE, view_withheld);
	if (v->nframes)
		arg_source(p, v->frame[0].file, v->frame[0].line);
	arg_stack(p, v->frame, v->nframes, v->walk_end);
	perfetto_put_instant(p->file, track, PERFETTO_STACK, "tag", v->tag->text, v->time.mono_ns);
}

static void on_probe(void *ctx, const struct view_probe *v)
{
	const struct view_probe_site *s = v->site;
	struct perfetto_writer *p = ctx;
	uint64_t track = track_of(p, v->raw->pid, v->raw->tid, v->comm, v->time);

	perfetto_arg_text(p->file, PERFETTO_ARG_PROBE, s->probe);
	perfetto_arg_text(p->file, PERFETTO_ARG_TEXT, v->text);
	if (s->ip) {
		arg_place(p, s->frame.module, s->frame.module_offset, s->frame.function, s->frame.offset,
			  s->ip);
		arg_source(p, s->source.file, s->source.line);
	}
	perfetto_arg_text(p->file, PERFETTO_ARG_INSN, s->insn);
	if (v->has_stack)
		arg_stack(p, v->frame, v->nframes, v->walk_end);
	perfetto_put_instant(p->file, track, PERFETTO_PROBE, "probe", s->probe, v->time.mono_ns);
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct perfetto_writer *p = ctx;
	uint64_t track = track_of(p, p->pid, 0, NULL, time);

	perfetto_arg_number(p->file, PERFETTO_ARG_COUNT, l->count);
	perfetto_arg_text(p->file, PERFETTO_ARG_WHY, l->why);
	perfetto_put_instant(p->file, track, PERFETTO_LOST, "lost", export_text_lost(w, l), time.mono_ns);
}

static void on_note(void *ctx, const struct view_event *v)
{
	const char *text = v->raw->note.text;
	struct perfetto_writer *p = ctx;
	uint64_t track;

	/* Without a time, it would be an event long before the others. */
	if (!v->time.mono_ns)
		return;
	track = track_of(p, p->pid, 0, NULL, v->time);
	perfetto_arg_text(p->file, PERFETTO_ARG_TEXT, text);
	perfetto_put_instant(p->file, track, PERFETTO_NOTE, "note:", text, v->time.mono_ns);
}

static void on_range(void *ctx, const struct view_event *v)
{
	const struct range_event *r = &v->raw->range;
	struct perfetto_writer *p = ctx;
	uint64_t track = track_of(p, r->pid, 0, NULL, v->time);

	perfetto_arg_number(p->file, PERFETTO_ARG_OCCURRENCE, r->occurrence);
	perfetto_put_instant(p->file, track, PERFETTO_RANGE, "range", step_range_name(r->what),
			     v->time.mono_ns);
}

static void on_signal(void *ctx, const struct view_signal *s)
{
	struct perfetto_writer *p = ctx;
	uint64_t track = track_of(p, s->raw->pid, s->raw->tid, s->comm, s->time);
	char name[32];

	step_signal_name(s->raw->signal, name, sizeof(name));
	perfetto_arg_signed(p->file, PERFETTO_ARG_CODE, s->raw->code);
	arg_stack(p, s->frame, s->nframes, WALK_END_COMPLETE);
	perfetto_put_instant(p->file, track, PERFETTO_SIGNAL, "signal", name, s->time.mono_ns);
}

static void on_blocked(void *ctx, const struct view_blocked *s)
{
	struct perfetto_writer *p = ctx;
	uint64_t track = track_of(p, s->raw->pid, s->raw->tid, s->comm, s->time);

	arg_stack(p, s->frame, s->nframes, s->walk_end);
	perfetto_put_instant(p->file, track, PERFETTO_STOOD, "stands in",
			     s->nopen ? s->open[s->nopen - 1].function->text : "no call", s->time.mono_ns);
}

/* Calls */

/* Ends the innermost open call, with the annotations; its return is not in the log if there is a reason @why. */
static void end_call(struct perfetto_writer *p, struct export_thread *th, const char *why, uint64_t ns)
{
	perfetto_arg_text(p->file, PERFETTO_ARG_ENDED, why);
	perfetto_put_end(p->file, perfetto_track(p->file, th->pid, th->tid, NULL),
			 export_thread_time(th, ns));
	export_calls_pop(&p->threads, th);
}

static void on_call(void *ctx, const struct view_call *v)
{
	struct perfetto_writer *p = ctx;
	uint64_t track = track_of(p, v->raw->pid, v->raw->tid, v->comm, v->time);
	struct export_thread *th = export_thread_get(&p->threads, v->raw->pid, v->raw->tid);
	size_t n;

	for (n = th ? export_calls_ended_by(th, v) : 0; n; n--)
		end_call(p, th, "unknown", v->time.mono_ns);
	if (!th || !export_calls_push(&p->threads, th, v)) {
		export_fail(&p->w, &wc_enomem);
		return;
	}
	perfetto_arg_number(p->file, PERFETTO_ARG_CALL, v->raw->call);
	perfetto_arg_text(p->file, PERFETTO_ARG_MODULE, v->function->e.module);
	arg_source(p, v->function->e.file, v->function->e.line);
	if (v->nargs)
		export_text_args(perfetto_arg_begin(p->file, PERFETTO_ARG_PARAMETERS), v->arg, v->nargs);
	perfetto_put_begin(p->file, track, v->function->text, export_thread_time(th, v->time.mono_ns));
}

static void on_return(void *ctx, const struct view_return *v)
{
	struct perfetto_writer *p = ctx;
	struct export_thread *th = export_thread_get(&p->threads, v->raw->pid, v->raw->tid);
	size_t n = th ? export_calls_ended_with(th, v->raw->call) : 0;
	char name[32] = "";

	if (!th)
		export_fail(&p->w, &wc_enomem);
	if (!n)
		return;
	track_of(p, v->raw->pid, v->raw->tid, v->comm, v->time);
	for (; n > 1; n--)
		end_call(p, th, "unknown", v->time.mono_ns);
	if (v->result)
		export_text_args(perfetto_arg_begin(p->file, PERFETTO_ARG_RETURNED), v->result, 1);
	if (v->raw->has_error)
		step_error_name(v->raw->error, name, sizeof(name));
	perfetto_arg_text(p->file, PERFETTO_ARG_ERRNO, name);
	end_call(p, th, v->raw->how == RETURN_RETURNED ? NULL : step_how_name(v->raw->how), v->time.mono_ns);
}

static struct wc_error *export_perfetto_finish(struct export_writer *w)
{
	struct perfetto_writer *p = (struct perfetto_writer *)w;
	size_t i;

	perfetto_begin(p->file, (struct view_time){ 0 });
	for (i = 0; i < p->threads.n; i++)
		while (p->threads.v[i]->nopen)
			end_call(p, p->threads.v[i], "the log ends", p->last_ns);
	return NULL;
}

static void perfetto_free(struct export_writer *w)
{
	struct perfetto_writer *p = (struct perfetto_writer *)w;

	perfetto_file_free(p->file);
	export_threads_deinit(&p->threads);
	map64_deinit_values(&p->curves, free);
	free(p);
}

struct export_writer *export_perfetto_new(void)
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
	struct perfetto_writer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->w = (struct export_writer){ .ops = &ops, .finish = export_perfetto_finish, .free = perfetto_free };
	p->file = perfetto_file_new(&p->w);
	if (!p->file) {
		perfetto_free(&p->w);
		return NULL;
	}
	return &p->w;
}
