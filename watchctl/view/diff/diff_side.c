/*
 * One pass over the log. Each thread has the stack of its open calls; a call that ends hands the hashes of
 * its subtree on to its parent. What is left out (by a mask, or by the scope) stays on that stack, without a
 * place in the array.
 *
 * Signals come when they like: they, and the handlers that they call, are kept apart from the calls of the
 * thread, as a thread of their own.
 */
#include "watchctl/view/diff/diff_side.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/progress.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_symbols.h"
#include "watchctl/view/diff/base/diff_array.h"
#include "watchctl/view/diff/base/diff_hash.h"
#include "watchctl/view/diff/diff_side_impl.h"
#include "watchctl/view/event/log_symbols.h"

#define COMM_LENGTH 15u /* more of the program's name is not in a thread's */

/* Threads */

static struct diff_thread *add_thread(struct diff_side *s, int32_t pid, int32_t tid)
{
	struct diff_thread *t = calloc(1, sizeof(*t));

	if (!t || !vec_push(s->thread, s->nthreads, s->threads_cap, t)) {
		free(t);
		return NULL;
	}
	t->side = s;
	t->pid = pid;
	t->tid = tid;
	return t;
}

/* The call, open or just ended, that a thread was created in; all zero: it is not known. */
static struct closed_call creating_call(const struct loading_thread *t, uint64_t call)
{
	size_t i;

	for (i = t ? t->nopen : 0; i-- > 0;)
		if (t->open[i].call == call)
			return (struct closed_call){ call, t->open[i].path, t->open[i].ordinal };
	for (i = 0; t && call && i < CLOSED_CALLS; i++)
		if (t->closed[i].call == call)
			return t->closed[i];
	return (struct closed_call){ 0 };
}

static struct loading_thread *find_thread(struct loader *l, int32_t tid)
{
	if (!l->last || l->last->tid != tid)
		l->last = map64_get(&l->threads, (uint32_t)tid);
	return l->last;
}

/* Threads that have not named themselves are called so. */
static bool is_of_program(const char *comm, const char *program)
{
	return program && comm && !strncmp(comm, program, COMM_LENGTH);
}

/* What makes the thread the same in another run: which thread made it, where, and how many there were before.
 */
static bool set_key(struct loader *l, struct diff_thread *t, const struct thread_event *e)
{
	const struct loading_thread *creator = e->creator ? find_thread(l, e->creator) : NULL;
	struct closed_call in = creating_call(creator, e->creating_call);
	uintptr_t number;

	if (creator)
		t->group = diff_mix(creator->main->key, in.path);
	else
		t->group =
			e->tid == e->pid
				? 1
				: diff_mix(diff_mix_text(2, is_of_program(e->comm, l->s->program) ? "/"
												  : e->comm),
					   l->start);
	number = (uintptr_t)map64_get(&l->created, t->group);
	if (!map64_put(&l->created, t->group, (void *)(number + 1)))
		return false;
	/* Threads that were created one after the other may be seen in another order. */
	t->number = in.ordinal ? in.ordinal - 1 : (uint32_t)number;
	t->key = diff_mix(t->group, t->number);
	return true;
}

static struct loading_thread *begin_thread(struct loader *l, const struct thread_event *e)
{
	struct loading_thread *t = calloc(1, sizeof(*t));

	if (!t || !vec_push(l->all, l->nall, l->all_cap, t)) {
		free(t);
		return NULL;
	}
	t->tid = e->tid;
	t->creator = e->creator;
	t->creating_call = e->creating_call;
	t->inside = !l->scope->from;
	t->main = add_thread(l->s, e->pid, e->tid);
	t->signals = t->main ? add_thread(l->s, e->pid, e->tid) : NULL;
	if (!t->signals || !set_key(l, t->main, e) || !map64_put(&l->threads, (uint32_t)e->tid, t) ||
	    !diff_canon_add_task(&l->s->canon, e->tid))
		return NULL;
	t->signals->of_signals = true;
	t->signals->key = diff_mix(t->main->key, 3);
	t->signals->group = diff_mix(t->main->group, 3);
	t->signals->number = t->main->number;
	l->last = NULL;
	return t;
}

static bool rename_thread(struct loading_thread *t, const char *comm)
{
	char *copy = strdup(comm ? comm : "");

	if (!copy)
		return false;
	free(t->main->comm);
	t->main->comm = copy;
	free(t->signals->comm);
	t->signals->comm = strdup(copy);
	return t->signals->comm != NULL;
}

struct wc_error *diff_load_thread(struct loader *l, const struct thread_event *e)
{
	struct loading_thread *t = find_thread(l, e->tid);

	/* A name that it took later, or another thread of the same number. */
	if (!t ||
	    (e->creator && t->creator && (t->creator != e->creator || t->creating_call != e->creating_call)))
		t = begin_thread(l, e);
	if (!t || !rename_thread(t, e->comm))
		return &wc_enomem;
	return diff_space_add_stack(&l->s->canon.space, e->stack_start, e->stack_end) ? NULL : &wc_enomem;
}

struct loading_thread *diff_loading_thread(struct loader *l, int32_t pid, int32_t tid)
{
	struct loading_thread *t = find_thread(l, tid);

	if (t)
		return t;
	t = begin_thread(l, &(struct thread_event){ .pid = pid, .tid = tid });
	return t && rename_thread(t, "") ? t : NULL;
}

/* What the log reports about the program */

static bool keep_text(char **at, const char *text)
{
	if (*at || !text)
		return true;
	*at = strdup(text);
	return *at != NULL;
}

static struct wc_error *on_process(struct diff_side *s, const struct process_event *p)
{
	if (!s->pid)
		s->pid = p->pid;
	if (!keep_text(&s->cmdline, p->cmdline) || !keep_text(&s->exe, p->exe) ||
	    !diff_canon_add_task(&s->canon, p->pid) || !log_symbols_process(s->names, p, 0))
		return &wc_enomem;
	return NULL;
}

static struct wc_error *on_recording(struct diff_side *s, const struct recording_event *r)
{
	s->has_recording = true;
	s->own_changes = r->changes;
	s->inputs.recorded = (enum recording_inputs)r->inputs;
	return keep_text(&s->range, r->range) && keep_text(&s->filters, r->filters) &&
			       keep_text(&s->stepper, r->stepper) && keep_text(&s->planner, r->planner)
		       ? NULL
		       : &wc_enomem;
}

static struct wc_error *on_module(struct diff_side *s, const struct module *m)
{
	return diff_space_add_module(&s->canon.space, m) && symbolizer_add(s->names, m) ? NULL : &wc_enomem;
}

static void on_range(struct diff_side *s, const struct range_event *r)
{
	if (r->what == RANGE_BEGIN)
		s->occurrences++;
	else
		s->end = r->what;
}

static struct wc_error *on_blocked(struct loader *l, const struct blocked_event *e, uint64_t at)
{
	struct loading_thread *t = diff_loading_thread(l, e->pid, e->tid);

	if (!t)
		return &wc_enomem;
	t->main->blocked = at;
	return NULL;
}

static struct wc_error *diff_side_take(struct loader *l, const struct trace_event *e)
{
	struct diff_side *s = l->s;
	uint64_t at = tracelog_position(s->log);

	switch (e->type) {
	case EVENT_CALL:
		return diff_load_call(l, &e->call, at);
	case EVENT_RETURN:
		return diff_load_return(l, &e->ret, at);
	case EVENT_SIGNAL:
		return diff_load_signal(l, &e->signal, at);
	case EVENT_BLOCKED:
		return on_blocked(l, &e->blocked, at);
	case EVENT_PROCESS:
		return on_process(s, &e->process);
	case EVENT_THREAD:
		return s->compact ? NULL : diff_load_thread(l, &e->thread);
	case EVENT_MODULE:
		return on_module(s, &e->module);
	case EVENT_RECORDING:
		return on_recording(s, &e->recording);
	case EVENT_TYPE:
		return diff_canon_add_type(&s->canon, &e->type_info) ? NULL : &wc_enomem;
	case EVENT_FUNCTION:
		return diff_load_function(l, &e->function);
	case EVENT_REGION:
		return diff_space_add_region(&s->canon.space, &e->region) ? NULL : &wc_enomem;
	case EVENT_RANGE:
		on_range(s, &e->range);
		return NULL;
	case EVENT_INPUT:
		return diff_inputs_add(&s->inputs, &e->input, e->time_ns);
	case EVENT_LOST:
		s->lost += e->lost.count;
		return NULL;
	case EVENT_ACCESS:
		s->accesses++;
		return NULL;
	case EVENT_CAPTURE:
		s->captures++;
		return NULL;
	case EVENT_SUMMARY:
		s->summaries++;
		return NULL;
	default:
		return NULL;
	}
}

static struct wc_error *report_name(void *ctx, const struct trace_event *e)
{
	struct diff_side *s = ctx;

	return e->type != EVENT_SYMBOL || log_symbols_report(s->names, &e->symbol) ? NULL : &wc_enomem;
}

static struct wc_error *read_all(struct loader *l)
{
	struct diff_side *s = l->s;
	enum log_outcome outcome;
	struct trace_event e;
	struct wc_error *err;

	for (;;) {
		err = tracelog_next(s->log, &e, &outcome);
		/* What comes behind a gap is not compared: the calls that are missing would be differences. */
		if (err || outcome != LOG_EVENT || tracelog_missed(s->log, NULL))
			break;
		err = s->compact ? diff_load_compact(l, e.time_ns) : NULL;
		if (err)
			return err;
		if (!s->events++)
			s->first_ns = e.time_ns;
		s->last_ns = e.time_ns;
		err = s->compact ? diff_load_compact_tell(l, &e) : NULL;
		if (!err)
			err = diff_side_take(l, &e);
		if (err)
			return err;
		if (l->scope->progress && !s->compact && s->events % DIFF_PROGRESS_EVENTS == 0)
			progress_at(l->scope->progress, tracelog_progress(s->log));
	}
	if (!err && !tracelog_missed(s->log, NULL))
		err = diff_load_compact(l, UINT64_MAX);
	tracelog_damage(s->log, &s->damage);
	s->why = s->damage.why_missed ? s->damage.why_missed : s->damage.why;
	diff_load_compact_finish(s);
	return err;
}

static void loader_deinit(struct loader *l)
{
	size_t i;

	for (i = 0; i < l->nall; i++) {
		free(l->all[i]->open);
		free(l->all[i]);
	}
	free(l->all);
	free(l->tokens.v);
	diff_load_compact_deinit(l);
	diff_unset_deinit(&l->unset);
	map64_deinit(&l->threads);
	map64_deinit(&l->created);
	map64_deinit(&l->creating);
	map64_deinit(&l->allocated);
	map64_deinit(&l->signals);
	map64_deinit(&l->kinds);
}

static struct wc_error *load(struct diff_side *s, const struct diff_scope *scope)
{
	struct loader l = { .s = s, .scope = scope };
	struct wc_error *err;

	s->canon.space.no_offsets = scope->by_name;
	s->canon.no_heap = !scope->weak;
	s->canon.weak_counts = scope->weak;
	err = tracelog_reader_open(s->path, &s->log);
	if (!err)
		err = tracelog_symbols_read(s->path, (struct event_sink){ report_name, s }, &s->why_names);
	if (!err)
		err = diff_load_compact_open(&l);
	if (!err)
		err = read_all(&l);
	if (!err)
		err = diff_load_finish(&l);
	loader_deinit(&l);
	if (s->redact.all) {
		free(s->cmdline);
		s->cmdline = NULL;
	}
	s->inputs.withheld |= redact_is_asked(&s->redact);
	/* From here on values are read again at moments that have passed. */
	s->canon.no_heap = true;
	return err;
}

struct wc_error *diff_side_load(const char *path, const struct diff_scope *scope, struct diff_side **ret)
{
	scoped(diff_side_freep) struct diff_side *s = calloc(1, sizeof(*s));
	struct wc_error *err;

	if (!s)
		return &wc_enomem;
	s->path = strdup(path);
	s->redact = scope->redact;
	s->changes = scope->changes;
	s->names = symbolizer_new();
	if (scope->program)
		s->canon.space.program = s->program = strdup(scope->program);
	if (!s->path || !s->names || (scope->program && !s->program))
		return &wc_enomem;
	err = load(s, scope);
	if (err)
		return err;
	*ret = take_ptr(s);
	return NULL;
}

static void free_thread(struct diff_thread *t)
{
	free(t->comm);
	diff_array_free(t->call, t->cap, sizeof(*t->call));
	diff_array_free(t->inner, t->inner_cap, sizeof(*t->inner));
	map64_deinit(&t->far);
	free(t->root);
	free(t->unset);
	free(t->bits);
	free(t);
}

struct diff_item diff_item_of(const struct diff_thread *t, uint32_t i)
{
	const struct diff_inner *inner = diff_inner_of(t, i);
	const uint32_t key = diff_kind_of(t, i)->key;

	return (struct diff_item){ .exact = diff_exact(t, i),
				   .shape = inner ? inner->shape : key,
				   .key = key };
}

uint64_t diff_back(const struct diff_thread *t, uint32_t i)
{
	const struct diff_call *c = &t->call[i];

	if (c->back == DIFF_FAR_BACK)
		return (uint64_t)(uintptr_t)map64_get(&t->far, i) & DIFF_POSITION;
	return c->back == DIFF_NEVER_BACK ? 0 : c->at + c->back;
}

/* Of a call that made none: the nearest one before it that made some, or one around that. */
uint32_t diff_parent(const struct diff_thread *t, uint32_t i)
{
	uint32_t before = i;

	if (t->call[i].inner)
		return diff_inner_of(t, i)->parent;
	while (before > 0 && !t->call[before - 1].inner)
		before--;
	before = before ? before - 1 : NO_CALL;
	while (before != NO_CALL && diff_next(t, before) <= i)
		before = diff_inner_of(t, before)->parent;
	return before;
}

void diff_side_free(struct diff_side *s)
{
	size_t i;

	if (!s)
		return;
	for (i = 0; i < s->nthreads; i++)
		free_thread(s->thread[i]);
	for (i = 0; i < s->nfunctions; i++)
		diff_function_deinit(&s->function[i]);
	free(s->thread);
	free(s->outer);
	free(s->function);
	free(s->kind);
	id_map_deinit(&s->function_ids);
	diff_canon_deinit(&s->canon);
	diff_inputs_deinit(&s->inputs);
	symbolizer_free(s->names);
	tracelog_reader_close(s->log);
	call_merge_close(s->compact);
	free(s->cmdline);
	free(s->exe);
	free(s->program);
	free(s->range);
	free(s->filters);
	free(s->stepper);
	free(s->planner);
	free(s->path);
	free(s);
}

void diff_side_freep(struct diff_side **s)
{
	diff_side_free(*s);
}
