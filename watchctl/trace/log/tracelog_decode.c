/* The fields of an event, from its bytes: by the rows of tracelog_rows.h, and by hand where they say so. */
#include "watchctl/trace/log/tracelog_decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"
#include "watchctl/trace/log/tracelog_decode_check.h"
#include "watchctl/trace/log/tracelog_decode_probe.h"
#include "watchctl/trace/log/tracelog_format.h"
#include "watchctl/trace/log/tracelog_get.h"
#include "watchctl/trace/log/tracelog_rows.h"

/* By hand */

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

static struct wc_error *get_watch_enumerators(struct tracelog_decoder *d, struct cursor *c,
					      struct trace_event *e)
{
	struct value_type *t = &e->watch.type;
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

static struct wc_error *get_access_has_old(struct tracelog_decoder *d, struct cursor *c,
					   struct trace_event *e)
{
	uint8_t has_old = get_u8(c);

	(void)d;
	e->access.has_old = has_old != 0;
	e->access.old_uncertain = has_old == TRACELOG_OLD_UNCERTAIN;
	return NULL;
}

/* A name is there once it is read, see below. */
static struct wc_error *get_tag_has_name(struct tracelog_decoder *d, struct cursor *c, struct trace_event *e)
{
	(void)d;
	e->tag.name = get_flag(c) ? "" : NULL;
	return NULL;
}

static struct wc_error *get_tag_number(struct tracelog_decoder *d, struct cursor *c, struct trace_event *e)
{
	(void)d;
	e->tag.number = get_u64(c);
	return NULL;
}

static struct wc_error *get_tag_name(struct tracelog_decoder *d, struct cursor *c, struct trace_event *e)
{
	const char *name = get_string(c);

	(void)d;
	if (e->tag.name)
		e->tag.name = name;
	return NULL;
}

/* By the rows */

#define GET(kind, ...) GET_##kind(__VA_ARGS__)
#define GET_FIELD(wire, name, member) e->member = get_##wire(c);
#define GET_FIELD_IF(wire, name, member, there, otherwise) e->member = get_##wire(c);
#define GET_HAND(wire, name, hook) \
	err = get_##hook(d, c, e); \
	if (err)                   \
		return err;
#define GET_BYTES(name, length, member, len) \
	e->len = get_u8(c);                  \
	if (e->len > sizeof(e->member)) {    \
		e->len = 0;                  \
		c->bad = true;               \
	}                                    \
	get_bytes(c, e->member, e->len);
#define GET_POINTED(wire, name, length, member, len, max) \
	e->len = get_##wire(c);                           \
	e->member = get_pointed(c, &e->len);
#define GET_BUILD_ID(name, member, len) get_build_id(c, e->member, &e->len);
#define GET_BUILD_ID_OF(name, member, len)     \
	get_build_id(c, d->build_id, &e->len); \
	e->member = d->build_id;
#define GET_STACK(...) refs->stack = get_u32(c);
#define GET_BEFORE(...) get_bytes(c, &refs->before_ns, TRACELOG_BEFORE_BYTES);
#define GET_MORE(...)     \
	if (!has_more(c)) \
		return NULL;

/* No more of them than there can be in what is left. */
#define GET_LIST(name, number, member, n, max, bytes, kept, rows)                                  \
	e->n = get_u32(c);                                                                         \
	c->bad |= e->n > (max) || e->n > (size_t)(c->end - c->p) / sizeof(struct { rows(LEAST) }); \
	if (c->bad)                                                                                \
		return NULL;                                                                       \
	if (e->n && !vec_reserve((void **)&d->kept, &d->kept##_cap, e->n, sizeof(*d->kept)))       \
		return &wc_enomem;                                                                 \
	for (uint32_t i = 0; i < e->n; i++) {                                                      \
		typeof(*d->kept) *it = &d->kept[i];                                                \
                                                                                                   \
		rows(ITEM)                                                                         \
	}                                                                                          \
	e->member = e->n ? d->kept : NULL;
#define ITEM(kind, ...) ITEM_##kind(__VA_ARGS__)
#define ITEM_FIELD(wire, name, member) it->member = get_##wire(c);
#define LEAST(kind, ...) LEAST_##kind(__VA_ARGS__)
#define LEAST_FIELD(wire, name, member) uint8_t name[WIRE_LEAST_##wire];

/* Points into the payload. */
static const uint8_t *get_pointed(struct cursor *c, uint32_t *len)
{
	const uint8_t *bytes = c->p;

	if (*len > (size_t)(c->end - c->p)) {
		c->bad = true;
		*len = 0;
	}
	c->p += *len;
	return bytes;
}

#define DEFINE_GET_EVENT(type, number, name, rows)                                                \
	static struct wc_error *get_event_##name(struct tracelog_decoder *d, struct cursor *c,    \
						 struct trace_event *e, struct decode_refs *refs) \
	{                                                                                         \
		struct wc_error *err = NULL;                                                      \
                                                                                                  \
		(void)d;                                                                          \
		(void)refs;                                                                       \
		rows(GET) return err;                                                             \
	}
#define NOTHING(...)

LOG_EVENTS(DEFINE_GET_EVENT, NOTHING, NOTHING, NOTHING)

#define CASE_GET(type, number, name, rows) \
	case type:                         \
		return get_event_##name(d, c, e, refs);

static struct wc_error *get_event(struct tracelog_decoder *d, unsigned int id, struct cursor *c,
				  struct trace_event *e, struct decode_refs *refs)
{
	switch (id) {
		LOG_EVENTS(CASE_GET, NOTHING, NOTHING, NOTHING)
	default:
		return NULL;
	}
}

/* The events that only a log has */

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
	tracelog_decode_access_stack(d, a, stack);
}

static struct wc_error *get_thread_process(struct tracelog_decoder *d, struct cursor *c)
{
	int32_t pid = (int32_t)get_u32(c), tid = (int32_t)get_u32(c);

	return c->bad || tracelog_keep_process(d, pid, tid) ? NULL : &wc_enomem;
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

static struct wc_error *decode_own(struct tracelog_decoder *d, uint16_t id, struct cursor *c,
				   enum decode_result *what)
{
	*what = DECODE_SKIPPED;
	switch (id) {
	case TRACELOG_ID_THREAD_PROCESS:
		return get_thread_process(d, c);
	case TRACELOG_ID_STACK:
		return keep_stack(d, c);
	case TRACELOG_ID_REEMITTED:
		*what = get_reemitted(c);
		return NULL;
	default: /* of a newer minor version */
		return NULL;
	}
}

/* An event as it goes to the caller, and as whose rows it is read. */
struct form {
	uint16_t type, rows;
	bool again; /* unless the caller has it */
};

static struct form form_of(uint16_t id)
{
	switch (id) {
	case TRACELOG_ID_HIT:
		return (struct form){ EVENT_ACCESS, id, false };
	case TRACELOG_ID_CAPTURE_VALUE:
		return (struct form){ EVENT_CAPTURE, id, false };
	case TRACELOG_ID_CAPTURE_WITHHELD:
		return (struct form){ EVENT_CAPTURE, EVENT_CAPTURE, false };
	case TRACELOG_ID_RETURN_ERROR:
		return (struct form){ EVENT_RETURN, id, false };
	case TRACELOG_ID_THREAD_AGAIN:
		return (struct form){ EVENT_THREAD, EVENT_THREAD, true };
	case TRACELOG_ID_CODE_AGAIN:
		return (struct form){ EVENT_CODE, EVENT_CODE, true };
	case TRACELOG_ID_TAG_AGAIN:
		return (struct form){ EVENT_TAG, EVENT_TAG, true };
	default:
		return (struct form){ id, id, false };
	}
}

#define CASE_ROWS(type, number, name, rows) case type:

static bool has_rows(uint16_t id)
{
	switch (id) {
		LOG_EVENTS(CASE_ROWS, NOTHING, NOTHING, NOTHING)
		return true;
	default:
		return false;
	}
}

/* Sets what is not stored, but follows from the form of its event, or is so unless rows say otherwise. */
static void before_rows(struct trace_event *e, uint16_t id)
{
	switch (id) {
	case EVENT_ACCESS:
		e->access.syscall = -1;
		break;
	case TRACELOG_ID_CAPTURE_VALUE:
		e->capture.has_value = true;
		break;
	case TRACELOG_ID_CAPTURE_WITHHELD:
		e->capture.withheld = true;
		break;
	case TRACELOG_ID_RETURN_ERROR:
		e->ret.has_error = true;
		break;
	default:
		break;
	}
}

/* Of calls and returns, of which there are millions, only what they have is zeroed. */
static void begin_event(struct trace_event *e, uint16_t type, uint64_t time_ns)
{
	switch (type) {
	case EVENT_CALL:
		e->call = (struct call_event){ 0 };
		break;
	case EVENT_RETURN:
		e->ret = (struct return_event){ 0 };
		break;
	default:
		*e = (struct trace_event){ 0 };
		break;
	}
	e->type = type;
	e->time_ns = time_ns;
	e->module_pid = 0;
}

struct wc_error *tracelog_decode(struct tracelog_decoder *d, const struct tracelog_raw *raw,
				 struct trace_event *ret, enum decode_result *what)
{
	struct cursor c = { .p = raw->payload, .end = raw->payload + raw->len };
	const struct form form = form_of(raw->id);
	struct decode_refs refs = { 0 };
	struct wc_error *err = NULL;
	bool known = false;

	begin_event(ret, form.type, raw->time_ns);
	*what = DECODE_EVENT;
	d->unknown = false;
	if (raw->id == EVENT_PROBE) {
		tracelog_decode_probe(d, &c, ret);
	} else if (raw->id == TRACELOG_ID_HIT) {
		get_hit(d, &c, ret);
	} else if (has_rows(form.rows)) {
		before_rows(ret, raw->id);
		err = get_event(d, form.rows, &c, ret, &refs);
		if (!err && !c.bad)
			err = tracelog_decode_check(d, ret, &refs, &c.bad, &known);
	} else {
		err = decode_own(d, raw->id, &c, what);
	}
	if (form.again && known)
		*what = DECODE_SKIPPED;
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
