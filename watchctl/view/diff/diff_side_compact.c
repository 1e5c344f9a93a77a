/*
 * Calls that a log has in files of their own (LOG/calls.N): between its events, at their times, as replay.c does. The
 * threads are told when they end, in any order, so each is begun with its first call. Where calls are missing, reading
 * ends: those that are missing would be differences.
 */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/id_map.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/progress.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/calls/call_merge.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/view/diff/diff_side_impl.h"
#include "watchctl/view/event/replay.h"

static bool keep_name(struct loader *l, const struct thread_event *e)
{
	struct thread_event copy = *e;

	copy.comm = strdup(e->comm ? e->comm : "");
	if (copy.comm && vec_push(l->told, l->ntold, l->told_cap, copy))
		return true;
	free((char *)copy.comm);
	return false;
}

static struct wc_error *read_threads(struct loader *l)
{
	scoped(tracelog_reader_closep) struct tracelog_reader *r = NULL;
	enum log_outcome outcome = LOG_EVENT;
	struct trace_event e;
	struct wc_error *err = tracelog_reader_open(l->s->path, &r);

	while (!err) {
		err = tracelog_next(r, &e, &outcome);
		if (err || outcome != LOG_EVENT)
			break;
		if (e.type == EVENT_THREAD && !keep_name(l, &e.thread))
			err = &wc_enomem;
	}
	return err;
}

struct wc_error *diff_load_compact_open(struct loader *l)
{
	struct diff_side *s = l->s;
	struct wc_error *err = call_merge_open(s->path, &s->compact);

	if (err || !s->compact)
		return err;
	call_merge_keep_positions(s->compact);
	s->canon.no_frames = true;
	return read_threads(l);
}

void diff_load_compact_deinit(struct loader *l)
{
	for (size_t i = 0; i < l->ntold; i++)
		free((char *)l->told[i].comm);
	free(l->told);
}

/* No region of it is told: its modules are, by its functions, as far as builds are compared by them. */
static struct wc_error *tell_module(struct loader *l, const struct function_event *e)
{
	const struct diff_space *space = &l->s->canon.space;
	const struct diff_module *last = space->nmodules ? &space->module[space->nmodules - 1] : NULL;
	struct module m = { .path = (char *)e->module, .build_id_len = e->build_id_len };

	if (!e->module || (last && !strcmp(last->path, e->module)) || m.build_id_len > sizeof(m.build_id))
		return NULL;
	if (e->build_id_len)
		memcpy(m.build_id, e->build_id, e->build_id_len);
	return diff_space_add_module(&l->s->canon.space, &m) ? NULL : &wc_enomem;
}

struct wc_error *diff_load_compact_tell(struct loader *l, const struct trace_event *e)
{
	if (!call_merge_tell(l->s->compact, e))
		return &wc_enomem;
	if (e->type == EVENT_NOTE && e->note.text &&
	    !strncmp(e->note.text, CALL_RING_NOTE, strlen(CALL_RING_NOTE)))
		l->s->is_rest = true;
	return e->type == EVENT_FUNCTION ? tell_module(l, &e->function) : NULL;
}

/* Its name and, of one that nothing else tells from others of that name, what it calls first. */
static struct wc_error *begin_thread(struct loader *l, const struct call_event *c)
{
	const uintptr_t function = (uintptr_t)id_map_get(&l->s->function_ids, c->function);
	struct wc_error *err = NULL;

	l->start = function ? l->s->function[function - 1].identity : 0;
	for (size_t i = 0; !err && i < l->ntold; i++)
		if (l->told[i].tid == c->tid)
			err = diff_load_thread(l, &l->told[i]);
	if (!err && !diff_loading_thread(l, c->pid, c->tid))
		err = &wc_enomem;
	l->start = 0;
	return err;
}

static struct wc_error *take_call(struct loader *l, const struct trace_event *e)
{
	const uint64_t at = DIFF_COMPACT | call_merge_position(l->s->compact);
	struct wc_error *err = NULL;

	if (e->type == EVENT_RETURN)
		return diff_load_return(l, &e->ret, at);
	if ((!l->last || l->last->tid != e->call.tid) && !map64_get(&l->threads, (uint32_t)e->call.tid))
		err = begin_thread(l, &e->call);
	return err ? err : diff_load_call(l, &e->call, at);
}

static void end_at_gap(struct diff_side *s, const struct trace_event *e)
{
	s->why_calls = e->type == EVENT_LOST
			       ? "calls are missing, which were discarded when they were recorded"
			       : "calls are missing in the middle";
}

struct wc_error *diff_load_compact(struct loader *l, uint64_t before_ns)
{
	struct diff_side *s = l->s;
	const struct trace_event *e;
	struct wc_error *err = NULL;

	while (s->compact && !s->why_calls && !err) {
		err = call_merge_next(s->compact, before_ns, &e);
		if (err || !e)
			return err;
		if (e->type == EVENT_LOST || e->type == EVENT_MISSING)
			end_at_gap(s, e);
		if (e->type != EVENT_CALL && e->type != EVENT_RETURN)
			continue;
		if (!s->events++)
			s->first_ns = e->time_ns;
		s->last_ns = e->time_ns;
		err = take_call(l, e);
		if (l->scope->progress && s->events % DIFF_PROGRESS_EVENTS == 0)
			progress_at(l->scope->progress, call_merge_progress(s->compact));
	}
	return err;
}

void diff_load_compact_finish(struct diff_side *s)
{
	struct call_merge_sums sums;
	struct call_damage damage;

	if (!s->compact)
		return;
	call_merge_sums(s->compact, &sums);
	call_merge_damage(s->compact, &damage);
	s->is_rest |= tracelog_is_rest(s->log) || sums.exits_before;
	if (!s->why_calls && sums.unknown)
		s->why_calls = "it does not tell the functions of some of its calls";
	if (!s->why_calls && damage.ignored)
		s->why_calls = damage.why;
	if (!s->why_calls && tracelog_is_recording(s->path))
		s->why_calls = "its program is still recording";
	if (!s->why_calls && replay_is_abandoned(s->path))
		s->why_calls = "its program was killed, or ended without exit(): its last calls are missing";
	s->why = s->why ? s->why : s->why_calls;
}
