#include "watchctl/view/event/annotate_step.h"

#include <stdio.h>
#include <stdlib.h>

#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/event/step_change.h"
#include "watchctl/view/event/step_track.h"
#include "watchctl/view/event/step_types.h"
#include "watchctl/view/event/step_value.h"

#define TEXT_MAX 4608 /* of a value: a string of CALL_POINTEE_MAX bytes, each of them escaped, fits */
#define CHANGES_MAX 32u
#define CALLERS_MAX 512 /* of calls without addresses: the innermost ones are reported */
#define TEXTS ((FUNCTION_PARAMS_MAX)*2 * (size_t)TEXT_MAX)

struct annotate_steps {
	struct frames *frames;
	const struct map64 *threads;
	unsigned int flags;
	const struct views *views;
	struct step_types types;
	struct step_track track;
	struct view_value value[FUNCTION_PARAMS_MAX];
	char *texts; /* of the last values: only as much of it is touched as they take */
	size_t texts_len;
	struct view_change change[CHANGES_MAX];
	struct view_frame *open_frame; /* of the last call without addresses */
	size_t open_cap;
};

#define REPORT(s, op, ...) VIEWS_REPORT((s)->views, op, __VA_ARGS__)

static const char *comm_of(const struct annotate_steps *s, int32_t pid, int32_t tid)
{
	return map64_get(s->threads, annotate_thread_key(pid, tid));
}

static bool wants_stacks(const struct annotate_steps *s)
{
	return s->flags & ANNOTATE_CALLS && s->flags & ANNOTATE_STACK;
}

/* Values */

static void add_texts(struct annotate_steps *s, struct view_value *v)
{
	const struct step_values c = { step_types_lookup(&s->types), s->frames->symbolizer };
	char *at = s->texts + s->texts_len;
	size_t n = step_value_text(&c, v->type, &v->v, at, TEXT_MAX) + 1;

	v->text = at;
	at += n;
	n += step_value_pointee_text(&c, v->type, &v->v, at, TEXT_MAX) + 1;
	v->to_text = *at ? at : NULL;
	s->texts_len += n;
}

/* "(unused: 42)" */
static void say_unused(struct annotate_steps *s, struct view_value *v)
{
	char *at = s->texts + s->texts_len;

	s->texts_len += (size_t)snprintf(at, TEXT_MAX, UNUSED_RESULT, v->text) + 1;
	v->text = at;
}

static bool points_to_bytes(const struct annotate_steps *s, const struct type_event *type)
{
	const struct type_event *to = NULL;

	if (type && type->kind == TYPE_POINTER)
		to = step_types_get(&s->types, type->target);
	return to && (to->kind == TYPE_ARRAY || to->kind == TYPE_UNKNOWN);
}

/* The next value; false: there is none. */
static bool next_value(struct annotate_steps *s, struct call_values_reader *r, const char *name,
		       uint32_t type, struct view_value *ret)
{
	*ret = (struct view_value){ .name = name, .type = step_types_get(&s->types, type) };
	if (!call_values_next(r, ret->type, &ret->v))
		return false;
	ret->to_is_bytes = points_to_bytes(s, ret->type);
	if (s->flags & ANNOTATE_TEXT)
		add_texts(s, ret);
	return true;
}

static size_t args_of(struct annotate_steps *s, const struct view_function *f, const struct call_event *e)
{
	struct call_values_reader r = { e->values, e->values + e->values_len };
	size_t n;

	s->texts_len = 0;
	for (n = 0; n < f->e.nparams; n++)
		if (!next_value(s, &r, f->e.param[n].name, f->e.param[n].type, &s->value[n]))
			break;
	return n;
}

static const struct view_value *result_of(struct annotate_steps *s, const struct view_function *f,
					  const struct return_event *e)
{
	struct call_values_reader r = { e->values, e->values + e->values_len };
	struct view_value *v = &s->value[0];

	s->texts_len = 0;
	if (!e->values_len || !next_value(s, &r, NULL, f->e.return_type, v))
		return NULL;
	v->is_unused = call_result_is_unused(e->values, e->values_len, v->type);
	if (v->is_unused && v->text)
		say_unused(s, v);
	return v;
}

static char *texts_at(struct annotate_steps *s)
{
	return s->texts + s->texts_len;
}

static void add_change(struct annotate_steps *s, const struct view_function *f, const struct return_extra *e,
		       uint32_t at, struct view_return *r)
{
	const struct step_values c = { step_types_lookup(&s->types), s->frames->symbolizer };
	const struct function_param *param = e->kind == RETURN_POINTEE ? &f->e.param[e->param] : NULL;
	const uint32_t left = e->len - at;
	struct view_change *add = &s->change[r->nchanges];
	size_t n;

	r->more_changes |= r->nchanges == CHANGES_MAX;
	if (r->nchanges == CHANGES_MAX)
		return;
	add->label = texts_at(s);
	s->texts_len += step_change_label(e, at, param ? param->name : NULL, texts_at(s), TEXT_MAX) + 1;
	add->text = texts_at(s);
	add->is_variable = !param;
	if (param)
		n = step_change_pointee(&c, step_types_get(&s->types, param->type), e, texts_at(s), TEXT_MAX);
	else if (e->kind == RETURN_MEMBER)
		n = step_change_member(&c, step_types_get(&s->types, e->type), e, texts_at(s), TEXT_MAX);
	else
		n = step_change_word(e->bytes + at, left < STEP_CHANGE_WORD ? left : STEP_CHANGE_WORD,
				     texts_at(s), TEXT_MAX);
	s->texts_len += n + 1;
	r->change = s->change;
	r->nchanges++;
}

/* Behind the result, whose texts stay. */
static void add_changes(struct annotate_steps *s, const struct view_function *f, struct view_return *r)
{
	struct call_values_reader bytes = { r->raw->values, r->raw->values + r->raw->values_len };
	const struct type_event *type = step_types_get(&s->types, f->e.return_type);
	struct return_extra e;
	struct call_value v;
	bool has;

	call_result_read(&bytes, type, &v, &has);
	while (return_extra_next(&bytes, &e)) {
		r->more_changes |= e.kind == RETURN_DATA_LEFT_OUT;
		if (e.kind == RETURN_MEMBER || (e.kind == RETURN_POINTEE && e.param < f->e.nparams))
			add_change(s, f, &e, 0, r);
		for (uint32_t at = 0; e.kind == RETURN_DATA && at < e.len; at += STEP_CHANGE_WORD)
			add_change(s, f, &e, at, r);
	}
}

/* Stacks */

/* Of an entry that the program itself reported no address is known: its callers are the open functions. */
static bool has_no_addresses(const struct call_event *e)
{
	return !e->sp && !e->nframes && !(e->flags & CALL_TAIL);
}

static bool open_functions(struct annotate_steps *s, struct view_call *c)
{
	const struct view_open_call *open;
	size_t n, i;

	open = step_track_open(&s->track, c->raw->pid, c->raw->tid, c->raw->call, &n);
	n = n ? n - 1 : 0; /* not itself */
	c->walk_end = n > CALLERS_MAX ? WALK_END_DEPTH : WALK_END_COMPLETE;
	c->nframes = n < CALLERS_MAX ? n : CALLERS_MAX;
	if (!vec_reserve((void **)&s->open_frame, &s->open_cap, c->nframes, sizeof(*s->open_frame)))
		return false;
	for (i = 0; i < c->nframes; i++) {
		const struct view_function *f = open[n - 1 - i].function;

		s->open_frame[i] = (struct view_frame){
			.module = f->e.module, .function = f->text, .file = f->e.file, .line = f->e.line
		};
	}
	c->frame = s->open_frame;
	return true;
}

static bool add_stack(struct annotate_steps *s, struct view_call *c)
{
	const uint64_t *address;
	uint32_t n;

	if (has_no_addresses(c->raw))
		return open_functions(s, c);
	if (!step_track_stack(&s->track, c->raw, &address, &n, &c->walk_end) ||
	    !frames_expand_returns(s->frames, address, n))
		return false;
	c->frame = s->frames->v;
	c->nframes = s->frames->n;
	return true;
}

/* Events */

static struct wc_error *on_call(struct annotate_steps *s, const struct call_event *e, struct view_time time)
{
	const struct view_function *f = step_types_function(&s->types, e->function);
	const struct view_open_call *open = f ? step_track_enter(&s->track, e, f, time.mono_ns) : NULL;
	struct view_call c;

	if (!open)
		return &wc_enomem;
	c = (struct view_call){
		.time = time,
		.raw = e,
		.function = f,
		.comm = comm_of(s, e->pid, e->tid),
		.depth = open->depth,
		.arg = s->value,
	};
	if (s->flags & ANNOTATE_CALLS)
		c.nargs = args_of(s, f, e);
	if (wants_stacks(s) && !add_stack(s, &c))
		return &wc_enomem;
	REPORT(s, call, &c);
	return NULL;
}

static struct wc_error *on_return(struct annotate_steps *s, const struct return_event *e,
				  struct view_time time)
{
	const struct view_open_call *begun = step_track_find(&s->track, e->pid, e->tid, e->call);
	struct view_return r = {
		.time = time,
		.raw = e,
		.function = begun ? begun->function : step_types_function(&s->types, e->function),
		.comm = comm_of(s, e->pid, e->tid),
		.begun = begun,
		.depth = begun ? begun->depth : 0,
	};

	if (!r.function)
		return &wc_enomem;
	if (begun && time.mono_ns > begun->time_ns)
		r.duration_ns = time.mono_ns - begun->time_ns;
	if (begun && r.duration_ns > begun->inside_ns)
		r.self_ns = r.duration_ns - begun->inside_ns;
	if (s->flags & ANNOTATE_CALLS)
		r.result = result_of(s, r.function, e);
	if ((s->flags & ANNOTATE_CALLS) && (s->flags & ANNOTATE_TEXT))
		add_changes(s, r.function, &r);
	REPORT(s, ret, &r);
	step_track_leave(&s->track, e->pid, e->tid, e->call, r.duration_ns);
	return NULL;
}

/* Inside of the call @call. */
static uint32_t depth_of(const struct annotate_steps *s, int32_t pid, int32_t tid, uint64_t call)
{
	const struct view_open_call *open;
	size_t n;

	open = step_track_open(&s->track, pid, tid, call, &n);
	return n ? open[n - 1].depth + 1 : 0;
}

static struct wc_error *on_step(struct annotate_steps *s, const struct step_event *e, struct view_time time)
{
	struct view_step v = {
		.time = time,
		.raw = e,
		.comm = comm_of(s, e->pid, e->tid),
		.depth = depth_of(s, e->pid, e->tid, e->call),
	};

	if (s->flags & ANNOTATE_CALLS) {
		if (!frames_expand_at(s->frames, &e->ip, 1))
			return &wc_enomem;
		v.frame = s->frames->v;
		v.nframes = s->frames->n;
	}
	REPORT(s, step, &v);
	return NULL;
}

static struct wc_error *on_signal(struct annotate_steps *s, const struct signal_event *e,
				  struct view_time time)
{
	struct view_signal v = {
		.time = time,
		.raw = e,
		.comm = comm_of(s, e->pid, e->tid),
		.depth = depth_of(s, e->pid, e->tid, e->call),
	};

	if (!frames_expand_at(s->frames, &e->ip, 1))
		return &wc_enomem;
	v.frame = s->frames->v;
	v.nframes = s->frames->n;
	REPORT(s, signal, &v);
	return NULL;
}

static struct wc_error *on_blocked(struct annotate_steps *s, const struct blocked_event *e,
				   struct view_time time)
{
	struct view_blocked v = {
		.time = time,
		.raw = e,
		.comm = comm_of(s, e->pid, e->tid),
		.walk_end = (enum walk_end)e->walk_end,
	};

	/* Few, and all there is to say about a program that hangs. */
	if (!frames_expand_at(s->frames, e->frame, e->nframes))
		return &wc_enomem;
	v.frame = s->frames->v;
	v.nframes = s->frames->n;
	v.open = step_track_open(&s->track, e->pid, e->tid, e->call, &v.nopen);
	REPORT(s, blocked, &v);
	return NULL;
}

static void on_input(struct annotate_steps *s, const struct input_event *e, struct view_time time)
{
	struct view_input v = {
		.time = time,
		.raw = e,
		.comm = comm_of(s, e->pid, e->tid),
		.depth = e->call ? depth_of(s, e->pid, e->tid, e->call) : 0,
	};

	REPORT(s, input, &v);
}

struct wc_error *annotate_steps_put(struct annotate_steps *s, const struct trace_event *e,
				    struct view_time time)
{
	switch (e->type) {
	case EVENT_TYPE:
		return step_types_add(&s->types, &e->type_info) ? NULL : &wc_enomem;
	case EVENT_FUNCTION:
		return step_types_add_function(&s->types, &e->function) ? NULL : &wc_enomem;
	case EVENT_CALL:
		return on_call(s, &e->call, time);
	case EVENT_RETURN:
		return on_return(s, &e->ret, time);
	case EVENT_STEP:
		return on_step(s, &e->step, time);
	case EVENT_SIGNAL:
		return on_signal(s, &e->signal, time);
	case EVENT_BLOCKED:
		return on_blocked(s, &e->blocked, time);
	default:
		on_input(s, &e->input, time);
		return NULL;
	}
}

struct annotate_steps *annotate_steps_new(struct frames *frames, const struct map64 *threads,
					  unsigned int flags, const struct views *views)
{
	struct annotate_steps *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->frames = frames;
	s->threads = threads;
	s->flags = flags;
	s->views = views;
	if (flags & ANNOTATE_CALLS && !(s->texts = malloc(TEXTS))) {
		free(s);
		return NULL;
	}
	return s;
}

void annotate_steps_free(struct annotate_steps *s)
{
	if (!s)
		return;
	step_types_deinit(&s->types);
	step_track_deinit(&s->track);
	free(s->texts);
	free(s->open_frame);
	free(s);
}
