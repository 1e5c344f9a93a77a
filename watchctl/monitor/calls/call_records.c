#include "watchctl/monitor/calls/call_records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/clock.h"
#include "watchctl/base/vec.h"
#include "watchctl/step/model/range.h"
#include "watchctl/step/model/step_values.h"
#include "watchctl/step/model/told_types.h"
#include "watchctl/target/proc/proc.h"
#include "watchctl/trace/call_values.h"

#define SECOND_NS 1000000000

struct wc_error *call_records_init(struct call_records *r, struct call_functions *functions,
				   struct event_sink sink)
{
	*r = (struct call_records){ .functions = functions, .sink = sink, .began_ns = monotonic_ns() };
	r->track = track_new();
	return r->track ? NULL : &wc_enomem;
}

void call_records_deinit(struct call_records *r)
{
	track_free(r->track);
	step_open_deinit(&r->open);
	map64_deinit(&r->met);
	free(r->thread);
}

void call_records_set_arguments(struct call_records *r, struct call_arguments *a)
{
	r->arguments = a;
	r->open.ops = a->types.ops;
	r->open.planner = a->types.planner;
}

static struct wc_error *put(struct call_records *r, struct trace_event *e, uint64_t time_ns)
{
	e->time_ns = time_ns;
	return r->sink.put(r->sink.ctx, e);
}

/* Functions */

static struct wc_error *report_function(struct call_records *r, uint32_t id, uint64_t time_ns)
{
	struct call_function *f = &r->functions->function[id];
	const struct module *m = &r->functions->file[f->file].m;
	struct trace_event e = { .type = EVENT_FUNCTION };
	struct wc_error *err = NULL;

	f->reported = true;
	if (f->plan)
		e.function = f->plan->function;
	else
		e.function = (struct function_event){ .flags = FUNCTION_NO_TYPES, .return_type = NO_TYPE };
	e.function.id = id;
	/* Of a choice all is as the planner has it: a stub's function is another module's. */
	if (!f->address || !f->plan) {
		e.function.name = f->name;
		e.function.module = m->path;
		e.function.build_id = m->build_id;
		e.function.build_id_len = m->build_id_len;
		e.function.address = f->addr;
		e.function.size = f->size;
	}
	if (f->plan)
		err = told_types_tell_function(&r->arguments->types, &e.function, time_ns, r->sink);
	return err ? err : put(r, &e, time_ns);
}

struct wc_error *call_records_tell_function(struct call_records *r, uint32_t function)
{
	const struct call_function *f = &r->functions->function[function];

	return f->reported || f->is_hidden ? NULL : report_function(r, function, monotonic_ns());
}

/* Values */

/* Those of parameters, or with @result of the result. Returns the bytes. */
static uint32_t put_values(const struct call_records *r, const struct function_plan *plan, bool result,
			   const struct fetched *from, uint8_t to[STEP_VALUES_MAX])
{
	const struct function_event *f = &plan->function;
	size_t len = 0;

	if (result)
		step_value_put(&plan->result, from, told_types_find(&r->arguments->types, f->return_type), to,
			       STEP_VALUES_MAX, &len);
	else
		for (uint32_t i = 0; i < f->nparams; i++)
			step_value_put(&plan->recipe[i], from,
				       told_types_find(&r->arguments->types, f->param[i].type), to,
				       STEP_VALUES_MAX, &len);
	return (uint32_t)len;
}

/* Calls */

/* Passes of it have not been recorded. */
static bool is_dropped(const struct call_site *s)
{
	return s->counter && (s->counter->count || s->counter->lost);
}

/* Passes of an end of @function have not been recorded: of a call that is over, this may have been how. */
static bool ends_are_dropped(const struct call_functions *f, uint32_t function)
{
	const struct call_function *of = &f->function[function];

	if (!of->loops_to_start || !of->at || !is_dropped(&f->site[of->entry]))
		return false; /* nobody counts its ends, see times_called() */
	for (size_t i = 0; i < f->nsites; i++) {
		const struct call_site *s = &f->site[i];

		if (s->function == function && !call_place_is_entry(s->place) && is_dropped(s))
			return true;
	}
	return false;
}

/* The call has been made. False: no memory. */
static bool keep_open(struct call_records *r, const struct track_call *c, pid_t tid)
{
	const struct call_function *f = &r->functions->function[c->point];
	uint64_t start = 0;

	if (!f->plan)
		return true;
	/* The point of one that is stepped over is perhaps a stub of another module. */
	if (!f->is_over)
		start = f->address ? f->address : f->addr + r->functions->file[f->file].m.bias;
	return step_open_enter(&r->open, tid, c, f->plan, start);
}

/* Says behind the result of @end that it is perhaps none. */
static void put_unused(struct call_records *r, const struct track_end *end, pid_t tid,
		       const struct function_plan *plan, uint32_t *values_len)
{
	static const struct return_extra unused = { .kind = RETURN_UNUSED };
	size_t len = *values_len;

	if (!plan->sets_result && step_open_is_unused(&r->open, tid, &end->call, plan) &&
	    return_extra_put(r->values, sizeof(r->values), &len, &unused))
		*values_len = (uint32_t)len;
}

/* @leave: what was fetched last is of where it was left. */
static struct wc_error *put_return(struct call_records *r, const struct track_end *end, pid_t tid, bool leave,
				   uint64_t time_ns)
{
	const struct function_plan *plan = r->functions->function[end->call.point].plan;
	const struct fetched *result = plan && leave && end->how == RETURN_RETURNED
					       ? call_arguments_result(r->arguments, plan)
					       : NULL;
	struct return_event ret = {
		.call = end->call.call,
		.pid = r->pid,
		.tid = tid,
		.function = end->call.point,
		.how = end->how,
		.values = r->values,
	};

	/* One that was not seen is recorded as that: not as none. */
	if (plan && end->how == RETURN_RETURNED && plan->result.state == VALUE_OK)
		ret.values_len = put_values(r, plan, true, result, r->values);
	if (result && ret.values_len)
		put_unused(r, end, tid, plan, &ret.values_len);
	if (plan)
		step_open_leave(&r->open, tid, end->call.call);
	ret.has_error = result && step_value_error(plan, result, &ret.error);
	return r->files ? call_files_end(r->files, &ret, time_ns)
			: put(r, &(struct trace_event){ .type = EVENT_RETURN, .ret = ret }, time_ns);
}

static struct wc_error *report_ends(struct call_records *r, const struct track_end *end, size_t n, pid_t tid,
				    bool leave, uint64_t time_ns)
{
	struct wc_error *err = NULL;

	for (size_t i = 0; i < n && !err; i++) {
		struct call_function *f = &r->functions->function[end[i].call.point];

		if (end[i].how != RETURN_RETURNED && !ends_are_dropped(r->functions, end[i].call.point))
			f->without_end++;
		f->open--;
		r->returns++;
		err = put_return(r, &end[i], tid, leave, time_ns);
	}
	return err;
}

/* Its parent has called it, and no function that is not traced. */
static bool is_direct(const struct call_records *r, const struct track_call *c)
{
	const struct call_function *p = c->parent ? &r->functions->function[c->parent_point] : NULL;

	return p && !p->is_over &&
	       (c->flags & CALL_TAIL ||
		c->return_address - r->functions->file[p->file].m.bias - p->addr - 1 < p->size);
}

/* A site that was passed. */
struct passing {
	uint64_t sp, return_address;
	uint32_t tid; /* as the program numbers it */
	bool values;  /* call_records.arguments has what was fetched there */
};

static struct wc_error *put_call(struct call_records *r, const struct track_call *c, pid_t tid,
				 const struct passing *p, uint64_t time_ns)
{
	const struct function_plan *plan = r->functions->function[c->point].plan;
	struct call_event call = {
		.call = c->call,
		.parent = c->parent,
		.pid = r->pid,
		.tid = tid,
		.function = c->point,
		.depth = c->depth < UINT16_MAX ? (uint16_t)c->depth : UINT16_MAX,
		.flags = c->flags,
		.sp = c->sp,
		.values = r->values,
	};

	if (plan)
		call.values_len =
			put_values(r, plan, false, p->values ? &r->arguments->entry : NULL, r->values);
	if (r->files)
		return call_files_enter(r->files, &call, time_ns);
	call.walk_end = (uint8_t)(is_direct(r, c) ? WALK_END_COMPLETE : WALK_END_DEPTH);
	call.nframes = c->flags & CALL_TAIL ? 0 : 1;
	call.frame = &p->return_address;
	return put(r, &(struct trace_event){ .type = EVENT_CALL, .call = call }, time_ns);
}

/* The range */

static struct wc_error *put_range(struct call_records *r, enum range_what what, pid_t tid, uint64_t time_ns)
{
	struct trace_event e = { .type = EVENT_RANGE };

	e.range = (struct range_event){ .occurrence = r->range ? r->range->range.occurrence : 1,
					.what = what,
					.pid = r->pid,
					.tid = tid };
	return put(r, &e, time_ns);
}

/* All that is open, in all threads. */
static struct wc_error *end_calls(struct call_records *r, enum return_how how, uint64_t time_ns)
{
	const struct track_end *ended;
	const pid_t *tids;
	size_t n = 0;
	struct wc_error *err = track_end_all(r->track, how, &ended, &tids, &n);

	for (size_t i = 0; i < n && !err; i++)
		err = report_ends(r, &ended[i], 1, tids[i], false, time_ns);
	return err;
}

static struct wc_error *begin_occurrence(struct call_records *r, pid_t tid, uint64_t time_ns)
{
	struct call_range *range = r->range;

	range->entries = 0;
	range->fresh = range->range.tid;
	if (range->range.state != RANGE_INSIDE)
		return NULL;
	range->recorded++;
	return put_range(r, RANGE_BEGIN, tid, time_ns);
}

struct wc_error *call_records_begin_range(struct call_records *r)
{
	if (!r->range)
		return put_range(r, RANGE_BEGIN, r->pid, monotonic_ns());
	return r->range->range.state == RANGE_OUTSIDE ? NULL : begin_occurrence(r, r->pid, monotonic_ns());
}

/* The range knows that it is over; @recorded: what was there of it. */
static struct wc_error *end_occurrence(struct call_records *r, bool recorded, pid_t tid, enum range_what what,
				       uint64_t time_ns)
{
	struct wc_error *err;

	if (!recorded)
		return NULL;
	r->range->last_end = what;
	err = put_range(r, what, tid, time_ns);
	return err ? err : end_calls(r, RETURN_NEVER, time_ns);
}

static bool is_recording(const struct call_records *r)
{
	return r->range->range.state == RANGE_INSIDE;
}

/* The function that began it has ended, if it was one of @tid that was entered at @sp. */
static struct wc_error *end_of_from(struct call_records *r, pid_t tid, uint64_t sp, uint64_t time_ns)
{
	const bool recorded = is_recording(r);

	return range_from_ended(&r->range->range, tid, sp)
		       ? end_occurrence(r, recorded, tid, RANGE_RETURNED, time_ns)
		       : NULL;
}

static struct wc_error *cut_range(struct call_records *r, pid_t tid, uint64_t time_ns)
{
	const bool recorded = is_recording(r);

	return range_cut(&r->range->range) ? end_occurrence(r, recorded, tid, RANGE_LIMIT, time_ns) : NULL;
}

/* An end of the range may be where @site is. */
static struct wc_error *pass_ends(struct call_records *r, const struct call_site *site,
				  const struct passing *p, pid_t tid, uint64_t time_ns)
{
	struct range *range = &r->range->range;
	struct wc_error *err = NULL;
	bool recorded;

	if (call_range_is_left(r->range, tid, p->sp))
		err = end_of_from(r, tid, range->sp, time_ns);
	if (!err && site->begins && range_at_from(range, tid, p->sp))
		err = begin_occurrence(r, tid, time_ns);
	recorded = is_recording(r);
	if (!err && site->ends && range->state != RANGE_OUTSIDE && range->state != RANGE_DONE &&
	    range_at_to(range, tid))
		err = end_occurrence(r, recorded, tid, RANGE_REACHED, time_ns);
	return err;
}

static struct wc_error *report_call(struct call_records *r, const struct track_call *c, pid_t tid,
				    const struct passing *p, uint64_t time_ns)
{
	struct call_function *f = &r->functions->function[c->point];
	struct wc_error *err = f->reported ? NULL : report_function(r, c->point, time_ns);

	if (err)
		return err;
	if (!keep_open(r, c, tid))
		return &wc_enomem;
	r->calls++;
	if (f->plan && f->plan->function.flags & FUNCTION_NO_TYPES) {
		r->untyped++;
		r->untyped_functions += !f->recorded;
	}
	if (f->is_over && f->name && (!strcmp(f->name, "dlopen") || !strcmp(f->name, "dlmopen"))) {
		r->loads = true;
		step_open_forget_code(&r->open);
	}
	f->recorded++;
	f->in_second++;
	f->open++;
	err = put_call(r, c, tid, p, time_ns);
	if (!err && r->range && r->range->events && ++r->range->entries >= r->range->events)
		err = cut_range(r, tid, time_ns);
	return err;
}

/* The stack of a thread that is met for the first time: the mapping that it stands on. */
struct stack_search {
	uint64_t sp, start, end;
	bool is_main;
};

static bool look_at_map(void *ctx, const struct proc_map *m)
{
	struct stack_search *s = ctx;

	if (s->sp < m->start || s->sp >= m->end)
		return true;
	s->start = m->start;
	s->end = m->end;
	s->is_main = !strcmp(m->name, "[stack]");
	return false;
}

static struct wc_error *meet(struct call_records *r, pid_t tid, const struct passing *p)
{
	struct stack_search s = { .sp = p->sp };

	if (tid == r->last_tid || map64_get(&r->met, (uint64_t)tid)) {
		r->last_tid = tid;
		return NULL;
	}
	proc_maps(r->pid, look_at_map, &s);
	if (r->found_stack && s.end)
		r->found_stack(r->switch_ctx, p->tid, s.start, s.end, s.is_main);
	return map64_put(&r->met, (uint64_t)tid, r) &&
			       vec_push(r->thread, r->nthreads, r->thread_cap,
					(struct call_thread){ .tid = tid, .is_missed = false }) &&
			       (!s.end || track_set_stack(r->track, tid, s.start, s.end))
		       ? NULL
		       : &wc_enomem;
}

static struct wc_error *end_thread(struct call_records *r, size_t i, uint64_t time_ns)
{
	const pid_t tid = r->thread[i].tid;
	const struct track_end *ended;
	size_t n;
	struct wc_error *err = track_thread_end(r->track, tid, RETURN_CANCELLED, &ended, &n);

	step_open_end_thread(&r->open, tid);
	r->thread[i] = r->thread[--r->nthreads];
	r->last_tid = 0;
	if (!err && !map64_put(&r->met, (uint64_t)tid, NULL))
		err = &wc_enomem;
	return err ? err : report_ends(r, ended, n, tid, false, time_ns);
}

/* What a thread recorded last may still be on its way when it is missed first. */
struct wc_error *call_records_look_at_threads(struct call_records *r)
{
	struct wc_error *err = NULL;
	char path[64];

	for (size_t i = r->nthreads; i-- && !err;) {
		struct call_thread *t = &r->thread[i];
		const bool gone = (snprintf(path, sizeof(path), "/proc/%d/task/%d", r->pid, t->tid),
				   access(path, F_OK));

		if (gone && t->is_missed)
			err = end_thread(r, i, r->last_ns);
		else
			t->is_missed = gone;
	}
	return err;
}

/*
 * The innermost call, entered at the same place of the stack, is still open. One that makes no tail calls is over, its end was not
 * recorded. False: the entry is a jump of the function's own to where it begins, as of a loop.
 */
static bool settle_same_place(struct call_records *r, uint32_t function, const struct track_call *inner,
			      pid_t tid, const struct track_end **ended, size_t *n, struct wc_error **err)
{
	const struct call_function *f = &r->functions->function[inner->point];

	if (inner->point == function && f->loops_to_start)
		return false;
	/* A function that is stepped over may jump anywhere; but not to where it began, as far as is known. */
	if (f->is_over ? inner->point == function : !f->jumps_away)
		*err = track_reached(r->track, tid, inner->return_address, inner->sp + 8, ended, n);
	return true;
}

/* It is called by the kernel, as the handler of a signal; and not by a jump of one, which has left it the return address. */
static bool is_handler(const struct call_records *r, const struct passing *p, const struct track_call *inner)
{
	return call_functions_is_restorer(r->functions, p->return_address) &&
	       !(inner && inner->sp == p->sp && inner->return_address == p->return_address);
}

/* If a call of @f returns to @address, an end of it is seen, or that it has returned there; or it does not return. */
static bool ends_are_seen(const struct call_records *r, const struct call_function *f, uint64_t address)
{
	return (f->is_over && f->leaves != TRACK_NORMAL) || (!f->is_over && !f->exit_refused) ||
	       call_functions_lands(r->functions, address);
}

static struct wc_error *on_entry(struct call_records *r, const struct passing *p, uint32_t function,
				 pid_t tid, uint64_t time_ns)
{
	const struct call_function *f = &r->functions->function[function];
	const struct track_call *inner = track_innermost(r->track, tid);
	const bool first = r->range && r->range->fresh == tid;
	const struct track_entry entry = { .tid = tid,
					   .point = function,
					   .sp = p->sp,
					   .return_address = p->return_address,
					   .over = f->is_over,
					   .flags = (uint8_t)((is_handler(r, p, inner) ? CALL_SIGNAL : 0) |
							      (first ? CALL_FIRST : 0)),
					   .leaves = f->leaves };
	const struct track_end *ended;
	struct track_call call = { 0 };
	struct wc_error *err = meet(r, tid, p);
	size_t n = 0;

	if (first)
		r->range->fresh = 0;
	inner = track_innermost(r->track, tid);
	if (!err && inner && !(entry.flags & CALL_SIGNAL) && inner->sp == entry.sp &&
	    inner->return_address == entry.return_address) {
		if (!settle_same_place(r, function, inner, tid, &ended, &n, &err)) {
			r->functions->function[function].loops++;
			return NULL;
		}
		if (!err && n)
			err = report_ends(r, ended, n, tid, false, time_ns);
	}
	if (!err)
		err = track_enter(r->track, &entry, &call, &ended, &n);
	if (!err)
		err = report_ends(r, ended, n, tid, false, time_ns);
	/* Not every end of it is seen: it may be any. */
	if (!err && !ends_are_seen(r, f, p->return_address))
		track_jumps(r->track, tid, entry.return_address, entry.sp);
	return err ? err : report_call(r, &call, tid, p, time_ns);
}

static struct wc_error *on_return(struct call_records *r, const struct passing *p, pid_t tid,
				  uint64_t time_ns)
{
	const struct track_end *ended;
	size_t n;
	struct wc_error *err = track_returns(r->track, tid, p->return_address, p->sp, &ended, &n);

	if (err)
		return err;
	r->without_begin += !n;
	return report_ends(r, ended, n, tid, p->values, time_ns);
}

static struct wc_error *take(struct call_records *r, const struct call_site *site, const struct passing *p,
			     uint64_t time_ns, pid_t tid)
{
	struct wc_error *err = NULL;

	r->last_ns = time_ns;
	switch (site->place) {
	case CALL_ENTRY:
		return on_entry(r, p, site->function, tid, time_ns);
	case CALL_WHOLE:
		err = on_entry(r, p, site->function, tid, time_ns);
		return err ? err : on_return(r, p, tid, time_ns);
	case CALL_STUB:
		err = on_entry(r, p, site->function, tid, time_ns);
		break;
	case CALL_RETURN:
		return on_return(r, p, tid, time_ns);
	case CALL_JUMP:
		break;
	case CALL_LANDING:
	case CALL_MARK:
		return NULL;
	}
	if (!err)
		track_jumps(r->track, tid, p->return_address, p->sp);
	return err;
}

/* A call has returned here, behind where it was called. */
static struct wc_error *on_landing(struct call_records *r, const struct call_site *site,
				   const struct passing *p, pid_t tid, uint64_t time_ns)
{
	const struct track_end *ended;
	size_t n = 0;
	struct wc_error *err = NULL;

	if (!track_awaits(r->track, site->ip))
		return NULL;
	r->last_ns = time_ns;
	err = track_reached(r->track, tid, site->ip, p->sp, &ended, &n);
	return err ? err : report_ends(r, ended, n, tid, p->values, time_ns);
}

/* An entry that is no call to be recorded: of what is stepped over, from other code; too deep; or of nothing that is told. */
static bool is_passed_over(const struct call_records *r, const struct call_site *site,
			   const struct passing *p, pid_t tid)
{
	const struct call_function *f = &r->functions->function[site->function];

	return f->is_hidden || !call_range_has(r->range, tid, r->pid) ||
	       (f->is_over && !call_choice_is_code(r->functions->choice, p->return_address)) ||
	       call_range_is_too_deep(r->range, track_innermost(r->track, tid), p->sp);
}

static bool is_return(enum call_place place)
{
	return place == CALL_RETURN || place == CALL_WHOLE;
}

/* As take(), of a range. A call is over before the range begins or ends, and that before the next call begins. */
static struct wc_error *take_ranged(struct call_records *r, const struct call_site *site,
				    const struct passing *p, uint64_t time_ns, pid_t tid)
{
	struct call_function *f = &r->functions->function[site->function];
	const bool entry = call_place_is_entry(site->place);
	struct wc_error *err = NULL;

	if (site->lands && call_range_has(r->range, tid, r->pid))
		err = on_landing(r, site, p, tid, time_ns);
	if (!err)
		err = pass_ends(r, site, p, tid, time_ns);
	if (err)
		return err;
	if (entry && is_passed_over(r, site, p, tid))
		f->passed_over++;
	else if (!f->is_hidden && call_range_has(r->range, tid, r->pid))
		err = take(r, site, p, time_ns, tid);
	if (!err && is_return(site->place) && r->range->range.options.from_is_function)
		err = end_of_from(r, tid, p->sp, time_ns);
	return err;
}

/* NULL: the program has written over what it recorded. */
static struct call_site *site_of(const struct call_records *r, uint32_t site)
{
	return site < r->functions->nsites && r->functions->site[site].counter ? &r->functions->site[site]
									       : NULL;
}

/* Its entry is only counted any more. So are its ends, if calls are known by these, see times_called(), once those that were recorded are over. */
static void switch_off(struct call_records *r, uint32_t function)
{
	const struct call_functions *all = r->functions;
	struct call_function *f = &all->function[function];

	if (!f->is_off)
		r->switch_site(r->switch_ctx, f->entry, CALL_COUNTED);
	f->is_off = true;
	if (f->open || f->ends_off)
		return;
	f->ends_off = true;
	for (uint32_t i = 0; i < all->nsites; i++)
		if (all->site[i].function == function && all->site[i].counter && i != f->entry)
			r->switch_site(r->switch_ctx, i, f->loops_to_start ? CALL_COUNTED : CALL_IGNORED);
}

/* It has been recorded as often as it may, in a second that begins with a call of it. */
static bool is_too_hot(const struct call_records *r, struct call_function *f, uint64_t time_ns)
{
	if ((int64_t)(time_ns - f->second_ns) >= SECOND_NS) {
		f->second_ns = time_ns;
		f->in_second = 0;
	}
	return f->is_off || (r->max_rate && f->in_second >= r->max_rate);
}

struct wc_error *call_records_take(struct call_records *r, const struct call_passed *c, uint64_t time_ns,
				   pid_t tid)
{
	struct call_site *site = site_of(r, c->site);
	struct passing p = { .sp = c->sp, .return_address = c->return_address, .tid = c->tid };
	struct call_function *f;
	struct wc_error *err;

	if (!site)
		return NULL;
	site->seen++;
	f = &r->functions->function[site->function];
	if (call_place_is_entry(site->place) && is_too_hot(r, f, time_ns)) {
		switch_off(r, site->function);
		return NULL;
	}
	if (site->plan && c->values) {
		call_arguments_read(r->arguments, site->plan, site->values, c);
		p.values = true;
	}
	err = r->range ? take_ranged(r, site, &p, time_ns, tid) : take(r, site, &p, time_ns, tid);
	if (f->is_off && !f->open && !f->ends_off)
		switch_off(r, site->function);
	return err;
}

/* The end */

static struct wc_error *end_open_calls(struct call_records *r, uint64_t time_ns)
{
	struct wc_error *err = NULL;

	for (size_t i = r->nthreads; r->exited && i-- && !err;)
		if (track_is_ending(r->track, r->thread[i].tid))
			err = end_thread(r, i, time_ns);
	return err ? err : end_calls(r, r->exited ? RETURN_PROCESS_EXIT : RETURN_NEVER, time_ns);
}

static struct wc_error *report_off(struct call_records *r, const struct call_function *f, uint64_t count,
				   uint64_t time_ns)
{
	struct trace_event e = { .type = EVENT_NOTE };
	char text[400];

	if (f->name)
		snprintf(
			text, sizeof(text),
			"%s was called so often that it was switched off: %llu of its calls are not recorded",
			f->name, (unsigned long long)count);
	else
		snprintf(
			text, sizeof(text),
			"the function at %s+0x%llx was called so often that it was switched off: %llu of its calls are not recorded",
			r->functions->file[f->file].m.path, (unsigned long long)f->addr,
			(unsigned long long)count);
	e.note.text = text;
	return put(r, &e, time_ns);
}

static uint64_t ends_of(const struct call_functions *f, uint32_t function)
{
	uint64_t n = 0;

	for (size_t i = 0; i < f->nsites; i++)
		if (f->site[i].function == function && f->site[i].counter &&
		    !call_place_is_entry(f->site[i].place))
			n += call_site_passed(&f->site[i]);
	return n;
}

/*
 * How often function @i was called: its entry was passed, less its own jumps there. Where it was not recorded which passes those were, its
 * ends are counted; what left it otherwise after it was switched off (longjmp) is not among them.
 */
static uint64_t times_called(const struct call_functions *f, uint32_t i)
{
	const struct call_function *of = &f->function[i];
	const uint64_t all = call_site_passed(&f->site[of->entry]),
		       passed = all > of->passed_over ? all - of->passed_over : 0;

	if (of->loops_to_start && passed > of->recorded + of->loops && !of->exit_refused)
		return ends_of(f, i) + of->without_end;
	return passed > of->loops ? passed - of->loops : 0;
}

/* Of one function: called, less what was recorded and lost, is what it was switched off for. */
static struct wc_error *add_up(struct call_records *r, uint32_t i, uint64_t time_ns)
{
	const struct call_function *f = &r->functions->function[i];
	uint64_t called, lost, rest;

	if (!f->at)
		return NULL;
	called = times_called(r->functions, i);
	if (called < f->recorded)
		called = f->recorded;
	rest = called - f->recorded;
	lost = f->at->lost < rest ? f->at->lost : rest;
	r->called += called;
	if (!f->is_off) {
		r->lost += rest; /* or never completed */
		return NULL;
	}
	r->lost += lost;
	r->switched_off += rest - lost;
	return rest > lost ? report_off(r, f, rest - lost, time_ns) : NULL;
}

static struct wc_error *report_lost(struct call_records *r, uint64_t count, const char *why, uint64_t time_ns)
{
	struct trace_event e = { .type = EVENT_LOST,
				 .lost = { .watch = WATCH_CALLS, .count = count, .why = why } };

	return count ? put(r, &e, time_ns) : NULL;
}

/* Threads do not wait until what they have loaded is patched. */
static struct wc_error *note_loads(struct call_records *r, uint64_t time_ns)
{
	struct trace_event e = { .type = EVENT_NOTE };

	e.note.text =
		"libraries were loaded meanwhile (dlopen): of their functions, calls of the first 0.1 s or so are not recorded";
	return r->loads ? put(r, &e, time_ns) : NULL;
}

struct wc_error *call_records_end(struct call_records *r)
{
	const uint64_t now = monotonic_ns();
	const enum range_what what = r->exited ? RANGE_EXITED : r->execed ? RANGE_EXECED : RANGE_STOPPED;
	struct wc_error *err = end_open_calls(r, now);

	if (!err)
		err = note_loads(r, now);
	for (size_t i = 0; i < r->functions->n && !err; i++)
		err = add_up(r, (uint32_t)i, now);
	if (!err)
		err = report_lost(r, r->lost, "the buffer was full", now);
	if (!err)
		err = report_lost(r, r->switched_off, "functions that are called too often were switched off",
				  now);
	if (err || (r->range && !is_recording(r)))
		return err;
	if (r->range)
		r->range->last_end = what;
	return put_range(r, what, r->pid, now);
}
