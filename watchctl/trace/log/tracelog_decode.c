/* Fields are taken in the order in which tracelog_encode.c puts them; see the metadata for their types. */
#include "watchctl/trace/log/tracelog_decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_decode_probe.h"
#include "watchctl/trace/log/tracelog_decode_step.h"
#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/log/tracelog_get.h"

static void get_process(struct cursor *c, struct process_event *p)
{
	p->pid = get_u32(c);
	p->realtime_ns = get_u64(c);
	p->comm = get_string(c);
	p->exe = get_string(c);
	p->cmdline = get_string(c);
	p->host = get_string(c);
	if (has_more(c))
		p->parent = get_u32(c);
}

static void get_thread(struct cursor *c, struct thread_event *t)
{
	t->pid = get_u32(c);
	t->tid = get_u32(c);
	t->comm = get_string(c);
	if (has_more(c)) {
		t->creator = get_u32(c);
		t->creating_call = get_u64(c);
		t->stack_start = get_u64(c);
		t->stack_end = get_u64(c);
	}
}

static void get_module(struct cursor *c, struct module *m, int32_t *pid)
{
	m->start = get_u64(c);
	m->end = get_u64(c);
	m->bias = get_u64(c);
	m->deleted = get_u8(c) != 0;
	m->path = get_string(c);
	get_build_id(c, m->build_id, &m->build_id_len);
	if (has_more(c))
		*pid = get_u32(c);
	if (m->end <= m->start)
		c->bad = true;
}

/* Splits "RED=0,GREEN=1" in place; a part of another form is damage. */
static struct wc_error *split_enumerators(struct tracelog_decoder *d, struct cursor *c)
{
	char *part, *rest = d->names;

	d->nenumerators = 0;
	while (rest && *rest) {
		char *equals, *end;
		long long value;

		part = strsep(&rest, ",");
		equals = strchr(part, '=');
		if (!equals || equals == part) {
			c->bad = true;
			return NULL;
		}
		*equals = '\0';
		errno = 0;
		value = strtoll(equals + 1, &end, 10);
		if (errno || end == equals + 1 || *end) {
			c->bad = true;
			return NULL;
		}
		if (!vec_push(d->enumerators, d->nenumerators, d->enumerators_cap,
			      (struct enumerator){ .name = part, .value = value }))
			return &wc_enomem;
	}
	return NULL;
}

static struct wc_error *get_enumerators(struct tracelog_decoder *d, struct cursor *c, struct value_type *t)
{
	const char *text = get_string(c);
	size_t len = strlen(text) + 1;
	struct wc_error *err;

	if (!vec_reserve((void **)&d->names, &d->names_cap, len, 1))
		return &wc_enomem;
	memcpy(d->names, text, len);
	err = split_enumerators(d, c);
	if (err)
		return err;
	t->enumerators = d->nenumerators ? d->enumerators : NULL;
	t->nenumerators = d->nenumerators;
	return NULL;
}

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

static struct wc_error *get_watch(struct tracelog_decoder *d, struct cursor *c, struct watch_event *w)
{
	struct wc_error *err;

	w->id = get_u32(c);
	w->addr = get_u64(c);
	w->size = get_u32(c);
	w->access = get_u8(c);
	w->threads = get_u32(c);
	w->threads_armed = get_u32(c);
	w->verified = get_u8(c) != 0;
	w->kernel = get_u8(c) != 0;
	w->has_value = get_u8(c) != 0;
	w->value = get_u64(c);
	w->slot = get_u32(c);
	w->type.kind = get_u8(c);
	w->type.enum_signed = get_u8(c) != 0;
	w->type.bit_offset = get_u8(c);
	w->type.bit_size = get_u8(c);
	w->name = get_string(c);
	w->full_name = get_string(c);
	w->engine = get_string(c);
	w->module = get_optional(c);
	w->type.name = get_optional(c);
	if (w->size < 1 || w->size > WATCH_SIZE_MAX || w->access > ACCESS_EXECUTE ||
	    w->type.kind > VALUE_AGGREGATE || w->type.bit_offset + w->type.bit_size > 64)
		c->bad = true;
	if (!c->bad && !keep(&d->watches, w->id))
		return &wc_enomem;
	if (!c->bad)
		keep_watch(d, w);
	err = get_enumerators(d, c, &w->type);
	if (!err && has_more(c)) {
		w->per_thread = get_u8(c) != 0;
		w->filter = get_optional(c);
		w->why = get_optional(c);
		w->steps_trap = get_u8(c) != 0;
	}
	if (!err && has_more(c))
		w->withheld = get_u8(c) != 0;
	return err;
}

static uint8_t get_code_bytes(struct cursor *c, uint8_t bytes[INSN_MAX])
{
	uint8_t n = get_u8(c);

	if (n > INSN_MAX) {
		c->bad = true;
		return 0;
	}
	get_bytes(c, bytes, n);
	return n;
}

static void get_code(struct cursor *c, struct code_fact *f)
{
	f->pc = get_u64(c);
	f->function_start = get_u64(c);
	f->before_len = get_code_bytes(c, f->before);
	f->at_len = get_code_bytes(c, f->at);
}

/* @stack NULL: it is lost, and where the access was made is known from its registers. */
static void set_stack(struct tracelog_decoder *d, struct access_event *a, const struct tracelog_stack *stack)
{
	if (!stack)
		d->lost_frame = a->regs.r[WREG_RIP];
	a->walk_end = stack ? stack->walk_end : WALK_END_LOST;
	a->nframes = stack ? stack->nframes : 1;
	a->frame = stack ? stack->frame : &d->lost_frame;
}

static void get_access(struct tracelog_decoder *d, struct cursor *c, struct trace_event *e)
{
	struct access_event *a = &e->access;
	const struct tracelog_stack *stack;
	uint8_t has_old;
	bool lost;

	e->time_ns = get_u64(c);
	a->watch = get_u32(c);
	a->pid = get_u32(c);
	a->tid = get_u32(c);
	a->addr = get_u64(c);
	a->size = get_u32(c);
	has_old = get_u8(c);
	a->has_old = has_old != 0;
	a->old_uncertain = has_old == TRACELOG_OLD_UNCERTAIN;
	a->has_new = get_u8(c) != 0;
	a->displaced = get_u8(c) != 0;
	a->old_value = get_u64(c);
	a->new_value = get_u64(c);
	stack = tracelog_stack_of(d, get_u32(c), &lost);
	get_bytes(c, a->regs.r, sizeof(a->regs.r));
	a->syscall = -1;
	if (has_more(c)) {
		a->in_kernel = get_u8(c) != 0;
		a->kernel_kind = get_u8(c);
		a->syscall = get_u32(c);
		a->kernel_function = get_optional(c);
	}
	if (has_more(c)) {
		a->withheld = get_u8(c) & (WITHHELD_VALUES | WITHHELD_REGS);
		a->known_kind = get_u8(c);
		a->known_in_caller = get_u8(c) != 0;
		a->known_insn = get_u64(c);
	}
	if ((!stack && !lost) || a->size < 1 || a->size > 8 || a->kernel_kind > ACCESS_EXECUTE ||
	    a->known_kind > ACCESS_EXECUTE) {
		c->bad = true;
		return;
	}
	tracelog_decode_needs(d, &d->watches, a->watch);
	set_stack(d, a, stack);
}

static void get_hit(struct tracelog_decoder *d, struct cursor *c, struct trace_event *e)
{
	struct access_event *a = &e->access;
	const struct tracelog_stack *stack;
	struct tracelog_hit hit;
	bool lost;

	e->type = EVENT_ACCESS;
	get_bytes(c, &hit, sizeof(hit));
	stack = tracelog_stack_of(d, hit.stack, &lost);
	d->unknown |= d->torn && (!d->watch[hit.watch].known || d->watch[hit.watch].moved);
	if ((!stack && !lost) || (!d->watch[hit.watch].known && !d->torn) || hit.size < 1 || hit.size > 8 ||
	    hit.before_ns > e->time_ns) {
		c->bad = true;
		return;
	}
	e->time_ns -= hit.before_ns;
	a->watch = hit.watch;
	a->pid = tracelog_decode_process(d, hit.tid);
	a->tid = hit.tid;
	a->addr = d->watch[hit.watch].addr + (hit.flags >> TRACELOG_HIT_OFFSET_SHIFT);
	a->size = hit.size;
	a->has_old = hit.flags & TRACELOG_HIT_OLD;
	a->has_new = hit.flags & TRACELOG_HIT_NEW;
	a->displaced = hit.flags & TRACELOG_HIT_DISPLACED;
	a->old_value = hit.old_value;
	a->new_value = hit.new_value;
	memcpy(a->regs.r, hit.regs, sizeof(a->regs.r));
	a->syscall = -1;
	set_stack(d, a, stack);
}

/* A thread belongs to the process that was reported last. False: no memory. */
static bool keep_process(struct tracelog_decoder *d, int32_t pid, int32_t tid)
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

static struct wc_error *get_thread_process(struct tracelog_decoder *d, struct cursor *c)
{
	int32_t pid = (int32_t)get_u32(c), tid = (int32_t)get_u32(c);

	return c->bad || keep_process(d, pid, tid) ? NULL : &wc_enomem;
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
	return err || keep_process(d, t->pid, t->tid) ? err : &wc_enomem;
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

static void get_tag(struct cursor *c, struct tag_event *t)
{
	bool has_name;
	const char *name;

	t->id = get_u32(c);
	has_name = get_u8(c) != 0;
	t->number = get_u64(c);
	name = get_string(c);
	t->name = has_name ? name : NULL;
}

static void get_capture(struct tracelog_decoder *d, struct cursor *c, struct trace_event *e, bool has_value)
{
	struct capture_event *k = &e->capture;
	const struct tracelog_stack *stack;
	uint64_t before_ns = 0;
	bool lost;

	e->type = EVENT_CAPTURE;
	k->tag = get_u32(c);
	k->tid = (int32_t)get_u32(c);
	stack = tracelog_stack_of(d, get_u32(c), &lost);
	get_bytes(c, &before_ns, TRACELOG_BEFORE_BYTES);
	k->has_value = has_value;
	k->value = has_value ? get_u64(c) : 0;
	if ((!stack && !lost) || before_ns > e->time_ns) {
		c->bad = true;
		return;
	}
	e->time_ns -= before_ns;
	k->pid = tracelog_decode_process(d, k->tid);
	tracelog_decode_needs(d, &d->tags, k->tag);
	k->walk_end = stack ? stack->walk_end : WALK_END_LOST;
	k->nframes = stack ? stack->nframes : 0;
	k->frame = stack ? stack->frame : NULL;
}

/* What sums up is about a watch, or about what has none. */
static void needs_watch(struct tracelog_decoder *d, uint32_t watch)
{
	if (watch != WATCH_CAPTURES && watch != WATCH_CALLS && watch != WATCH_PROBES && watch != UINT32_MAX)
		tracelog_decode_needs(d, &d->watches, watch);
}

static void get_lost(struct tracelog_decoder *d, struct cursor *c, struct lost_event *l)
{
	l->watch = get_u32(c);
	l->count = get_u64(c);
	l->why = get_string(c);
	needs_watch(d, l->watch);
}

static void get_summary(struct tracelog_decoder *d, struct cursor *c, struct summary_event *s)
{
	s->watch = get_u32(c);
	s->has_counted = get_u8(c) != 0;
	s->counted = get_u64(c);
	s->recorded = get_u64(c);
	s->lost = get_u64(c);
	s->filtered = get_u64(c);
	s->duration_ns = get_u64(c);
	needs_watch(d, s->watch);
}

static struct wc_error *get_symbol(struct tracelog_decoder *d, struct cursor *c, struct symbol_event *s)
{
	s->address = get_u64(c);
	s->start = get_u64(c);
	s->path = get_string(c);
	get_build_id(c, d->build_id, &s->build_id_len);
	s->build_id = d->build_id;
	s->nfunctions = get_u32(c);
	if (s->nfunctions < 1 || s->nfunctions > SYMBOL_FUNCTIONS_MAX)
		c->bad = true;
	if (c->bad)
		return NULL;
	if (!vec_reserve((void **)&d->functions, &d->functions_cap, s->nfunctions, sizeof(*d->functions)))
		return &wc_enomem;
	for (uint32_t i = 0; i < s->nfunctions; i++) {
		d->functions[i].line = get_u32(c);
		d->functions[i].name = get_optional(c);
		d->functions[i].file = get_optional(c);
	}
	s->function = d->functions;
	return NULL;
}

static struct wc_error *keep_stack(struct tracelog_decoder *d, struct cursor *c)
{
	uint32_t id = get_u32(c), nframes;
	uint8_t walk_end = get_u8(c);
	struct tracelog_stack *s;
	void *old;

	nframes = get_u32(c);
	if (nframes < 1 || nframes > STACK_MAX || walk_end > WALK_END_UNKNOWN_PC) {
		c->bad = true;
		return NULL;
	}
	s = malloc(sizeof(*s) + nframes * sizeof(*s->frame));
	if (!s)
		return &wc_enomem;
	s->nframes = nframes;
	s->walk_end = walk_end;
	get_bytes(c, s->frame, nframes * sizeof(*s->frame));
	old = map64_get(&d->stacks, id);
	if (c->bad || !map64_put(&d->stacks, id, s)) {
		free(s);
		return c->bad ? NULL : &wc_enomem;
	}
	free(old);
	return NULL;
}

static enum decode_result get_reemitted(struct cursor *c)
{
	switch (get_u8(c)) {
	case REEMITTED_BEGIN:
		return DECODE_REEMITTED_BEGIN;
	case REEMITTED_END:
		return DECODE_REEMITTED_END;
	default:
		c->bad = true;
		return DECODE_DAMAGED;
	}
}

/* The events that only a log has. *@what is DECODE_EVENT when it is one for the caller. */
static struct wc_error *decode_own(struct tracelog_decoder *d, uint16_t id, struct cursor *c,
				   struct trace_event *ret, enum decode_result *what)
{
	struct wc_error *err = NULL;
	bool known = true;

	switch (id) {
	case TRACELOG_ID_HIT:
		get_hit(d, c, ret);
		known = false;
		break;
	case TRACELOG_ID_CAPTURE_VALUE:
		get_capture(d, c, ret, true);
		known = false;
		break;
	case TRACELOG_ID_CAPTURE_WITHHELD:
		get_capture(d, c, ret, false);
		ret->capture.withheld = true;
		known = false;
		break;
	case TRACELOG_ID_RETURN_ERROR:
		err = tracelog_decode_step(d, id, c, ret);
		known = false;
		break;
	case TRACELOG_ID_THREAD_PROCESS:
		err = get_thread_process(d, c);
		break;
	case TRACELOG_ID_STACK:
		err = keep_stack(d, c);
		break;
	case TRACELOG_ID_THREAD_AGAIN:
		ret->type = EVENT_THREAD;
		get_thread(c, &ret->thread);
		if (!c->bad)
			err = know_thread(d, &ret->thread, &known);
		break;
	case TRACELOG_ID_CODE_AGAIN:
		ret->type = EVENT_CODE;
		get_code(c, &ret->code);
		if (!c->bad)
			err = tracelog_decode_know(d, &d->code, ret->code.pc, &known);
		break;
	case TRACELOG_ID_TAG_AGAIN:
		ret->type = EVENT_TAG;
		get_tag(c, &ret->tag);
		if (!c->bad)
			err = know_tag(d, ret->tag.id, &known);
		break;
	case TRACELOG_ID_REEMITTED:
		*what = get_reemitted(c);
		return NULL;
	default:
		break;
	}
	*what = known ? DECODE_SKIPPED : DECODE_EVENT;
	return err;
}

struct wc_error *tracelog_decode(struct tracelog_decoder *d, const struct tracelog_raw *raw,
				 struct trace_event *ret, enum decode_result *what)
{
	struct cursor c = { .p = raw->payload, .end = raw->payload + raw->len };
	struct wc_error *err = NULL;
	bool known;

	*ret = (struct trace_event){ .type = raw->id, .time_ns = raw->time_ns };
	*what = DECODE_EVENT;
	d->unknown = false;
	switch (raw->id) {
	case EVENT_PROCESS:
		get_process(&c, &ret->process);
		break;
	case EVENT_THREAD:
		get_thread(&c, &ret->thread);
		if (!c.bad)
			err = know_thread(d, &ret->thread, &known);
		break;
	case EVENT_MODULE:
	case EVENT_MODULE_GONE:
		get_module(&c, &ret->module, &ret->module_pid);
		break;
	case EVENT_WATCH:
		err = get_watch(d, &c, &ret->watch);
		break;
	case EVENT_CODE:
		get_code(&c, &ret->code);
		if (!c.bad)
			err = tracelog_decode_know(d, &d->code, ret->code.pc, &known);
		break;
	case EVENT_ACCESS:
		get_access(d, &c, ret);
		break;
	case EVENT_LOST:
		get_lost(d, &c, &ret->lost);
		break;
	case EVENT_NOTE:
		ret->note.text = get_string(&c);
		break;
	case EVENT_SUMMARY:
		get_summary(d, &c, &ret->summary);
		break;
	case EVENT_TAG:
		get_tag(&c, &ret->tag);
		if (!c.bad)
			err = know_tag(d, ret->tag.id, &known);
		break;
	case EVENT_CAPTURE:
		get_capture(d, &c, ret, false);
		break;
	case EVENT_SYMBOL:
		err = get_symbol(d, &c, &ret->symbol);
		break;
	case EVENT_RECORDING:
	case EVENT_TYPE:
	case EVENT_FUNCTION:
	case EVENT_REGION:
	case EVENT_RANGE:
	case EVENT_CALL:
	case EVENT_RETURN:
	case EVENT_STEP:
	case EVENT_SIGNAL:
	case EVENT_BLOCKED:
	case EVENT_INPUT:
		err = tracelog_decode_step(d, raw->id, &c, ret);
		break;
	case EVENT_PROBE_SITE:
	case EVENT_PROBE:
	case EVENT_PROBE_TOTAL:
		err = tracelog_decode_probe(d, raw->id, &c, ret);
		break;
	default:
		err = decode_own(d, raw->id, &c, ret, what);
		break;
	}
	if (d->unknown && *what == DECODE_EVENT)
		*what = DECODE_UNKNOWN;
	if (c.bad)
		*what = DECODE_DAMAGED;
	return err;
}

void tracelog_decoder_next_file(struct tracelog_decoder *d)
{
	map64_deinit_values(&d->stacks, free);
}

void tracelog_decoder_forget(struct tracelog_decoder *d)
{
	tracelog_decoder_next_file(d);
	map64_deinit(&d->processes);
	map64_deinit(&d->threads);
	map64_deinit(&d->code);
	map64_deinit(&d->tags);
	map64_deinit(&d->known_functions);
	map64_deinit(&d->types);
	map64_deinit(&d->watches);
	map64_deinit(&d->probe_sites);
	d->torn = false;
	memset(d->watch, 0, sizeof(d->watch));
	d->last_tid = d->last_pid = 0;
}

void tracelog_decoder_deinit(struct tracelog_decoder *d)
{
	tracelog_decoder_forget(d);
	free(d->enumerators);
	free(d->names);
	free(d->functions);
	free(d->members);
	free(d->params);
	*d = (struct tracelog_decoder){ 0 };
}
