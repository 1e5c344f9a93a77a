#include "watchctl/trace/log/tracelog_decode_check.h"

#include "watchctl/base/map64.h"
#include "watchctl/trace/log/tracelog_format.h"

/* Reported before */

const struct tracelog_stack *tracelog_stack_of(const struct tracelog_decoder *d, uint32_t id, bool *lost)
{
	const struct tracelog_stack *stack = map64_get(&d->stacks, id);

	*lost = !stack && d->torn;
	return stack;
}

void tracelog_decode_needs(struct tracelog_decoder *d, const struct map64 *reported, uint64_t key)
{
	d->unknown |= d->torn && !map64_get(reported, key);
}

int32_t tracelog_decode_process(struct tracelog_decoder *d, int32_t tid)
{
	int32_t pid = tracelog_process_of(d, tid);

	d->unknown |= d->torn && !pid;
	return pid;
}

static bool keep(struct map64 *reported, uint64_t key)
{
	return map64_put(reported, key, (void *)(uintptr_t)1);
}

/* A thread belongs to the process that was reported last. False: no memory. */
bool tracelog_keep_process(struct tracelog_decoder *d, int32_t pid, int32_t tid)
{
	if (d->last_tid == tid)
		d->last_pid = pid;
	return map64_put(&d->processes, (uint32_t)tid, (void *)(uintptr_t)(uint32_t)pid);
}

int32_t tracelog_process_of(struct tracelog_decoder *d, int32_t tid)
{
	if (tid != d->last_tid) {
		d->last_pid = (int32_t)(uintptr_t)map64_get(&d->processes, (uint32_t)tid);
		d->last_tid = tid;
	}
	return d->last_pid;
}

/* Reported before, and this reader has seen it. False: *err, or it has not. */
static bool is_known(struct map64 *reported, uint64_t key, uint64_t value, struct wc_error **err)
{
	*err = NULL;
	if ((uint64_t)(uintptr_t)map64_get(reported, key) == value)
		return true;
	if (!map64_put(reported, key, (void *)(uintptr_t)value))
		*err = &wc_enomem;
	return false;
}

static struct wc_error *know_thread(struct tracelog_decoder *d, const struct thread_event *t, bool *known)
{
	struct wc_error *err = NULL;

	*known = false;
	if (d->ring)
		*known = is_known(&d->threads, (uint32_t)t->tid, (uint32_t)t->pid, &err);
	return err || tracelog_keep_process(d, t->pid, t->tid) ? err : &wc_enomem;
}

/* A tag: that one was reported is kept of all logs, that it was reported before matters in a ring. */
static struct wc_error *know_tag(struct tracelog_decoder *d, uint32_t id, bool *known)
{
	struct wc_error *err;

	*known = is_known(&d->tags, id, 1, &err) && d->ring;
	return err;
}

static struct wc_error *tracelog_decode_know(struct tracelog_decoder *d, struct map64 *reported, uint64_t key,
					     bool *known)
{
	struct wc_error *err = NULL;

	*known = false;
	if (d->ring)
		*known = is_known(reported, key, 1, &err);
	return err;
}

/* A sum is of a watch, or of what has none. */
static void needs_watch(struct tracelog_decoder *d, uint32_t watch)
{
	if (watch != WATCH_CAPTURES && watch != WATCH_CALLS && watch != WATCH_PROBES && watch != UINT32_MAX)
		tracelog_decode_needs(d, &d->watches, watch);
}

static bool knows_type(const struct tracelog_decoder *d, uint32_t type)
{
	return !d->torn || type == NO_TYPE || map64_get(&d->types, type);
}

/* Stacks */

struct found_stack {
	uint8_t walk_end;
	uint32_t nframes;
	const uint64_t *frame;
};

/* False: there is none of that number. */
static bool find_stack(const struct tracelog_decoder *d, uint32_t number, struct found_stack *ret)
{
	bool lost;
	const struct tracelog_stack *stack = tracelog_stack_of(d, number, &lost);

	ret->walk_end = stack ? stack->walk_end : WALK_END_LOST;
	ret->nframes = stack ? stack->nframes : 0;
	ret->frame = stack ? stack->frame : NULL;
	return stack || lost;
}

/* Likewise, where an event may have none. */
static bool find_stack_or_none(const struct tracelog_decoder *d, uint32_t number, struct found_stack *ret)
{
	if (number < TRACELOG_NO_STACK)
		return find_stack(d, number, ret);
	*ret = (struct found_stack){ .walk_end = (uint8_t)(number - TRACELOG_NO_STACK) };
	return ret->walk_end <= WALK_END_UNKNOWN_PC;
}

/* @stack NULL: it is lost, and where the access was made is known from its registers. */
void tracelog_decode_access_stack(struct tracelog_decoder *d, struct access_event *a,
				  const struct tracelog_stack *stack)
{
	if (!stack)
		d->lost_frame = a->regs.r[WREG_RIP];
	a->walk_end = stack ? stack->walk_end : WALK_END_LOST;
	a->nframes = stack ? stack->nframes : 1;
	a->frame = stack ? stack->frame : &d->lost_frame;
}

/* Each event: false is damage. */

static void keep_watch(struct tracelog_decoder *d, const struct watch_event *w)
{
	struct tracelog_watched *watch;

	if (w->id >= TRACELOG_HIT_WATCHES)
		return;
	watch = &d->watch[w->id];
	watch->moved |= watch->known && watch->addr != w->addr;
	d->watch_moved |= watch->moved;
	watch->addr = w->addr;
	watch->known = true;
}

static bool check_watch(struct tracelog_decoder *d, const struct watch_event *w, struct wc_error **err)
{
	if (w->size < 1 || w->size > WATCH_SIZE_MAX || w->type.bit_offset + w->type.bit_size > 64)
		return false;
	if (!keep(&d->watches, w->id))
		*err = &wc_enomem;
	keep_watch(d, w);
	return true;
}

static bool check_access(struct tracelog_decoder *d, struct access_event *a, uint32_t number)
{
	bool lost;
	const struct tracelog_stack *stack = tracelog_stack_of(d, number, &lost);

	if ((!stack && !lost) || a->size < 1 || a->size > 8)
		return false;
	tracelog_decode_needs(d, &d->watches, a->watch);
	tracelog_decode_access_stack(d, a, stack);
	return true;
}

static bool check_capture(struct tracelog_decoder *d, struct trace_event *e, const struct decode_refs *refs)
{
	struct capture_event *k = &e->capture;
	struct found_stack stack;

	if (!find_stack(d, refs->stack, &stack) || refs->before_ns > e->time_ns)
		return false;
	e->time_ns -= refs->before_ns;
	k->pid = tracelog_decode_process(d, k->tid);
	tracelog_decode_needs(d, &d->tags, k->tag);
	k->walk_end = stack.walk_end;
	k->nframes = stack.nframes;
	k->frame = stack.frame;
	return true;
}

static bool check_type(struct tracelog_decoder *d, const struct type_event *t, struct wc_error **err)
{
	if (t->id == NO_TYPE)
		return false;
	for (uint32_t i = 0; i < t->nmembers; i++)
		if (t->member[i].bit_offset + t->member[i].bit_size > 64)
			return false;
	if (!keep(&d->types, t->id))
		*err = &wc_enomem;
	return true;
}

/* Calls of a function whose values cannot be read are not known either. */
static void check_function(struct tracelog_decoder *d, const struct function_event *f, struct wc_error **err)
{
	bool known = knows_type(d, f->return_type);

	for (uint32_t i = 0; i < f->nparams; i++)
		known &= knows_type(d, f->param[i].type);
	d->unknown |= !known;
	if (known && !keep(&d->known_functions, f->id))
		*err = &wc_enomem;
}

static bool check_call(struct tracelog_decoder *d, struct call_event *e, uint32_t number)
{
	struct found_stack stack;

	e->pid = tracelog_decode_process(d, e->tid);
	tracelog_decode_needs(d, &d->known_functions, e->function);
	if (!find_stack_or_none(d, number, &stack))
		return false;
	e->walk_end = stack.walk_end;
	e->nframes = stack.nframes;
	e->frame = stack.frame;
	return true;
}

static bool check_return(struct tracelog_decoder *d, struct return_event *e)
{
	e->pid = tracelog_decode_process(d, e->tid);
	tracelog_decode_needs(d, &d->known_functions, e->function);
	return true;
}

static bool check_blocked(struct tracelog_decoder *d, struct blocked_event *e, uint32_t number)
{
	struct found_stack stack;

	e->pid = tracelog_decode_process(d, e->tid);
	if (!find_stack(d, number, &stack))
		return false;
	e->walk_end = stack.walk_end;
	e->nframes = stack.nframes;
	e->frame = stack.frame;
	return true;
}

static bool check_event(struct tracelog_decoder *d, struct trace_event *e, const struct decode_refs *refs,
			bool *known, struct wc_error **err)
{
	switch (e->type) {
	case EVENT_THREAD:
		*err = know_thread(d, &e->thread, known);
		return true;
	case EVENT_MODULE:
	case EVENT_MODULE_GONE:
		return e->module.end > e->module.start;
	case EVENT_WATCH:
		return check_watch(d, &e->watch, err);
	case EVENT_CODE:
		*err = tracelog_decode_know(d, &d->code, e->code.pc, known);
		return true;
	case EVENT_ACCESS:
		return check_access(d, &e->access, refs->stack);
	case EVENT_LOST:
		needs_watch(d, e->lost.watch);
		return true;
	case EVENT_SUMMARY:
		needs_watch(d, e->summary.watch);
		return true;
	case EVENT_TAG:
		*err = know_tag(d, e->tag.id, known);
		return true;
	case EVENT_CAPTURE:
		return check_capture(d, e, refs);
	case EVENT_SYMBOL:
		return e->symbol.nfunctions >= 1;
	case EVENT_TYPE:
		return check_type(d, &e->type_info, err);
	case EVENT_FUNCTION:
		check_function(d, &e->function, err);
		return true;
	case EVENT_REGION:
		return e->region.end > e->region.start;
	case EVENT_CALL:
		return check_call(d, &e->call, refs->stack);
	case EVENT_RETURN:
		return check_return(d, &e->ret);
	case EVENT_STEP:
		e->step.pid = tracelog_decode_process(d, e->step.tid);
		return true;
	case EVENT_SIGNAL:
		e->signal.pid = tracelog_decode_process(d, e->signal.tid);
		return true;
	case EVENT_BLOCKED:
		return check_blocked(d, &e->blocked, refs->stack);
	case EVENT_INPUT:
		return e->input.len <= e->input.size;
	case EVENT_PROBE_SITE:
		if (!keep(&d->probe_sites, e->probe_site.id))
			*err = &wc_enomem;
		return true;
	case EVENT_PROBE_TOTAL:
		tracelog_decode_needs(d, &d->probe_sites, e->probe_total.site);
		return true;
	default:
		return true;
	}
}

struct wc_error *tracelog_decode_check(struct tracelog_decoder *d, struct trace_event *e,
				       const struct decode_refs *refs, bool *bad, bool *known)
{
	struct wc_error *err = NULL;

	*bad |= !check_event(d, e, refs, known, &err);
	return err;
}
