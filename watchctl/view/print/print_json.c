/*
 * The form for programs: one object a line. Field names are a promise (docs, watchctl-report(1));
 * what is not known is absent; addresses and 64-bit values are hex strings.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "watchctl/base/syscall_name.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/trace/rows/event_fields.h"
#include "watchctl/view/print/print_json.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/sites.h"

void print_json_begin(struct printer *p, const char *type)
{
	json_open(&p->json, NULL, '{');
	json_text(&p->json, "type", type);
}

void print_json_end(struct printer *p)
{
	json_close(&p->json, '}');
	json_end_line(&p->json, p->out);
}

/* ISO 8601, UTC, to the nanosecond: a JSON number of ns since the epoch would lose digits in many readers. */
void print_json_time(struct printer *p, struct view_time t)
{
	uint64_t second = t.real_ns / 1000000000u;
	char stamp[24], text[48];
	time_t clock = second;
	struct tm tm;

	json_number(&p->json, "time_ns", t.mono_ns);
	if (!t.real_ns || !gmtime_r(&clock, &tm) || !strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm))
		return;
	snprintf(text, sizeof(text), "%s.%09lluZ", stamp, (unsigned long long)(t.real_ns % 1000000000u));
	json_text(&p->json, "time", text);
}

static const char *asked_name(uint32_t access)
{
	static const char *const name[] = {
		[ACCESS_UNKNOWN] = "rw",   [ACCESS_READ] = "r",	   [ACCESS_WRITE] = "w",
		[ACCESS_READWRITE] = "rw", [ACCESS_EXECUTE] = "x",
	};

	return name[access <= ACCESS_EXECUTE ? access : ACCESS_UNKNOWN];
}

static void put_process(void *ctx, const struct view_event *v)
{
	const struct process_event *e = &v->raw->process;
	struct printer *p = ctx;

	print_json_begin(p, "process");
	print_json_time(p, v->time);
	json_signed(&p->json, "pid", e->pid);
	if (e->parent)
		json_signed(&p->json, "parent", e->parent);
	json_text_if(&p->json, "comm", e->comm);
	json_text_if(&p->json, "exe", e->exe);
	json_text_if(&p->json, "cmdline", e->cmdline);
	json_text_if(&p->json, "host", e->host);
	print_json_end(p);
}

static void put_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct printer *p = ctx;
	const struct watch_event *e = &w->e;
	char text[160];

	print_json_begin(p, "armed");
	print_json_time(p, time);
	json_text(&p->json, "watch", e->name);
	json_text_if(&p->json, "full_name", e->full_name);
	json_text_if(&p->json, "value_type", e->type.name);
	json_text_if(&p->json, "module", e->module);
	if (!e->per_thread || e->addr)
		json_hex(&p->json, "addr", e->addr);
	json_number(&p->json, "size", e->size);
	json_text(&p->json, "access", asked_name(e->access));
	json_text_if(&p->json, "engine", e->engine);
	json_text_if(&p->json, "engine_why", e->why);
	json_text_if(&p->json, "filter", e->filter);
	if (e->per_thread)
		json_bool(&p->json, "per_thread", true);
	if (e->slot >= 0)
		json_signed(&p->json, "slot", e->slot);
	json_number(&p->json, "threads", e->threads);
	json_number(&p->json, "threads_armed", e->threads_armed);
	json_bool(&p->json, "verified", e->verified);
	json_bool(&p->json, "kernel", e->kernel);
	if (e->has_value) {
		json_hex(&p->json, "value", e->value);
		value_format(&e->type, e->size, e->value, NULL, text, sizeof(text));
		json_text_if(&p->json, "value_text", text);
	}
	print_json_withheld(&p->json, e->withheld ? WITHHELD_VALUES : 0);
	print_json_end(p);
}

void print_json_source(struct json *j, const char *file, unsigned int line)
{
	json_text_if(j, "file", file);
	if (file && line)
		json_number(j, "line", line);
}

/* Of the accessing instruction: the real function, whose offset it is, and the innermost line. */
static void put_location(struct json *j, const struct location *l)
{
	const char *function = l->frame[l->nframes - 1].function;

	json_text_if(j, "module", l->module);
	if (l->build_id_len)
		json_bytes(j, "build_id", l->build_id, l->build_id_len);
	if (l->module)
		json_hex(j, "module_offset", l->module_offset);
	if (function) {
		json_text(j, "function", function);
		json_number(j, "offset", l->offset);
	}
	print_json_source(j, l->frame[0].file, l->frame[0].line);
	if (l->stale)
		json_bool(j, "stale", true);
}

void print_json_frame(struct json *j, const struct view_frame *f, bool with_ip)
{
	json_open(j, NULL, '{');
	if (with_ip)
		json_hex(j, "ip", f->ip);
	json_text_if(j, "module", f->module);
	if (f->module)
		json_hex(j, "module_offset", f->module_offset);
	if (f->function) {
		json_text(j, "function", f->function);
		if (!f->inlined)
			json_number(j, "offset", f->offset);
	}
	print_json_source(j, f->file, f->line);
	json_bool(j, "inlined", f->inlined);
	if (f->after)
		json_bool(j, "after", true);
	if (f->signal)
		json_bool(j, "signal", true);
	json_close(j, '}');
}

/* A function that is open in the thread, as calls without addresses have them. */
static void put_open_function(struct json *j, const struct view_frame *f)
{
	json_open(j, NULL, '{');
	json_text_if(j, "module", f->module);
	json_text(j, "function", f->function);
	print_json_source(j, f->file, f->line);
	json_close(j, '}');
}

void print_json_stack(struct json *j, const struct view_frame *frame, size_t nframes, enum walk_end end)
{
	size_t i;

	json_open(j, "stack", '[');
	for (i = 0; i < nframes; i++) {
		if (frame[i].ip || !frame[i].function)
			print_json_frame(j, &frame[i], true);
		else
			put_open_function(j, &frame[i]);
	}
	json_close(j, ']');
	json_text(j, "stack_end", text_walk_end_name(end));
}

static void put_regs(struct json *j, const struct regs *regs)
{
	int i;

	json_open(j, "regs", '{');
	for (i = 0; i < WREG_COUNT; i++)
		if (i != WREG_FS_BASE || regs->r[i])
			json_hex(j, text_reg_name(i), regs->r[i]);
	json_close(j, '}');
}

void print_json_withheld(struct json *j, unsigned int what)
{
	if (!what)
		return;
	json_open(j, "withheld", '[');
	if (what & WITHHELD_VALUES)
		json_text(j, NULL, "values");
	if (what & WITHHELD_REGS)
		json_text(j, NULL, "registers");
	json_close(j, ']');
}

static void put_values(struct json *j, const struct view_access *a)
{
	if (a->raw->has_old)
		json_hex(j, "old", a->raw->old_value);
	if (a->raw->old_uncertain)
		json_bool(j, "old_uncertain", true);
	if (a->raw->has_new)
		json_hex(j, "new", a->raw->new_value);
	if (a->raw->has_old)
		json_text_if(j, "old_text", a->old_text);
	if (a->raw->has_new)
		json_text_if(j, "new_text", a->new_text);
	print_json_withheld(j, a->raw->withheld);
}

static void put_kernel(struct json *j, const struct access_event *e)
{
	const char *name = syscall_name(e->syscall);

	if (name)
		json_text(j, "syscall", name);
	else if (e->syscall >= 0)
		json_number(j, "syscall", (uint64_t)e->syscall);
	json_text_if(j, "kernel_function", e->kernel_function);
}

void print_json_tag(struct json *j, const struct view_tag *tag)
{
	json_text(j, "tag", tag->text);
	if (!tag->name)
		json_hex(j, "tag_number", tag->number);
}

void print_json_place(struct json *j, const struct view_frame *real, const struct view_frame *source)
{
	json_text_if(j, "module", real->module);
	if (real->module)
		json_hex(j, "module_offset", real->module_offset);
	if (real->function) {
		json_text(j, "function", real->function);
		json_number(j, "offset", real->offset);
	}
	print_json_source(j, source->file, source->line);
}

static void put_before(struct json *j, const struct view_access *a)
{
	const struct view_capture *c = a->before;

	if (!c)
		return;
	json_open(j, "before", '{');
	json_number(j, "time_ns", c->time.mono_ns);
	json_number(j, "distance_ns", a->time.mono_ns - c->time.mono_ns);
	print_json_tag(j, c->tag);
	if (c->raw->has_value)
		json_hex(j, "value", c->raw->value);
	print_json_withheld(j, c->raw->withheld ? WITHHELD_VALUES : 0);
	print_json_stack(j, c->frame, c->nframes, c->walk_end);
	json_close(j, '}');
}

static void put_access(void *ctx, const struct view_access *a)
{
	struct printer *p = ctx;
	struct json *j = &p->json;

	print_json_begin(p, "access");
	print_json_time(p, a->time);
	json_signed(j, "pid", a->raw->pid);
	json_signed(j, "tid", a->raw->tid);
	json_text_if(j, "comm", a->comm);
	json_text(j, "watch", a->watch->e.name);
	json_hex(j, "addr", a->raw->addr);
	json_number(j, "size", a->raw->size);
	json_text(j, "kind", text_kind_name(a->kind));
	json_text(j, "origin", a->origin == ORIGIN_KERNEL ? "kernel" : "user");
	if (a->raw->in_kernel)
		put_kernel(j, a->raw);
	put_values(j, a);
	if (a->ip) {
		json_hex(j, "ip", a->ip);
		json_text_if(j, "insn", a->insn);
		put_location(j, a->location);
	} else {
		json_hex(j, "next_ip", a->raw->regs.r[WREG_RIP]);
	}
	if (a->raw->displaced)
		json_bool(j, "displaced", true);
	if (!p->opt.no_stack)
		print_json_stack(j, a->frame, a->nframes, a->walk_end);
	if (p->opt.regs && !(a->raw->withheld & WITHHELD_REGS))
		put_regs(j, &a->raw->regs);
	put_before(j, a);
	print_json_end(p);
}

/* Of the captured place: the real function, whose offset it is, and the innermost line. */
static void put_capture_place(struct json *j, const struct view_capture *c)
{
	size_t real = 0;

	if (!c->nframes)
		return;
	while (real + 1 < c->nframes && c->frame[real].inlined)
		real++;
	print_json_place(j, &c->frame[real], &c->frame[0]);
}

static void put_capture(void *ctx, const struct view_capture *c)
{
	struct printer *p = ctx;
	struct json *j = &p->json;

	print_json_begin(p, "stack");
	print_json_time(p, c->time);
	json_signed(j, "pid", c->raw->pid);
	json_signed(j, "tid", c->raw->tid);
	json_text_if(j, "comm", c->comm);
	print_json_tag(j, c->tag);
	if (c->raw->has_value)
		json_hex(j, "value", c->raw->value);
	print_json_withheld(j, c->raw->withheld ? WITHHELD_VALUES : 0);
	put_capture_place(j, c);
	if (!p->opt.no_stack)
		print_json_stack(j, c->frame, c->nframes, c->walk_end);
	print_json_end(p);
}

static void put_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct printer *p = ctx;

	print_json_begin(p, "lost");
	print_json_time(p, time);
	if (w)
		json_text(&p->json, "watch", w->e.name);
	else if (l->watch == WATCH_CAPTURES)
		json_text(&p->json, "of", "captures");
	else if (l->watch == WATCH_CALLS)
		json_text(&p->json, "of", "calls");
	else if (l->watch == WATCH_PROBES)
		json_text(&p->json, "of", "probes");
	json_number(&p->json, "count", l->count);
	json_text_if(&p->json, "why", l->why);
	print_json_end(p);
}

static void put_missing(void *ctx, const struct view_event *v)
{
	const struct missing_event *m = &v->raw->missing;
	struct printer *p = ctx;

	print_json_begin(p, "missing");
	print_json_time(p, v->time);
	if (m->bytes)
		json_number(&p->json, "bytes", m->bytes);
	if (m->events)
		json_number(&p->json, "events", m->events);
	if (m->from_ns)
		json_number(&p->json, "from_ns", m->from_ns);
	if (m->to_ns)
		json_number(&p->json, "to_ns", m->to_ns);
	json_text(&p->json, "why", m->why);
	print_json_end(p);
}

/* pid, tid and the thread's name come first. */
static void put_field(void *ctx, const struct event_field *f)
{
	struct json *j = ctx;

	if (!strcmp(f->name, "pid") || !strcmp(f->name, "tid"))
		return;
	switch (f->kind) {
	case FIELD_NUMBER:
		json_number(j, f->name, f->number);
		break;
	case FIELD_SIGNED:
		json_signed(j, f->name, f->i);
		break;
	case FIELD_HEX:
		json_hex(j, f->name, f->number);
		break;
	case FIELD_FLAG:
		json_bool(j, f->name, f->number != 0);
		break;
	case FIELD_TEXT:
		json_text(j, f->name, f->text);
		break;
	case FIELD_BYTES:
		json_bytes(j, f->name, f->bytes, f->len);
		break;
	}
}

/* By its rows in tracelog_rows.h. */
static void put_as_it_is(void *ctx, const struct view_event *e)
{
	struct printer *p = ctx;
	const char *name = event_name(e->raw->type);
	int32_t pid, tid;

	if (!name)
		return;
	print_json_begin(p, name);
	print_json_time(p, e->time);
	if (event_thread(e->raw, &pid, &tid)) {
		json_signed(&p->json, "pid", pid);
		json_signed(&p->json, "tid", tid);
		json_text_if(&p->json, "comm", e->comm);
	}
	event_fields(e->raw, put_field, &p->json);
	print_json_end(p);
}

static void put_summary(void *ctx, const struct view_summary *s)
{
	struct printer *p = ctx;
	struct json *j = &p->json;

	print_json_begin(p, "summary");
	if (s->watch)
		json_text(j, "watch", s->watch->e.name);
	else
		json_text(j, "of", s->e.watch == WATCH_PROBES ? "probes" : "captures");
	if (s->e.watch == WATCH_PROBES && s->reached)
		json_number(j, "reached", s->reached);
	if (s->e.has_counted)
		json_number(j, "counted", s->e.counted);
	json_number(j, "recorded", s->e.recorded);
	json_number(j, "lost", s->e.lost);
	json_number(j, "filtered", s->e.filtered);
	json_number(j, "duration_ns", s->e.duration_ns);
	if (s->complete && s->partial)
		json_number(j, "held", s->held);
	json_bool(j, "complete", s->complete);
	print_json_end(p);
}

static void put_last_value(struct json *j, const char *name, const char *text_name, const struct site *s,
			   uint64_t value)
{
	const struct watch_event *w = &s->key.watch->e;
	char text[160];

	json_hex(j, name, value);
	value_format(&w->type, w->size ? w->size : 8, value, NULL, text, sizeof(text));
	json_text_if(j, text_name, text);
}

static void put_site(struct printer *p, const struct site *s)
{
	struct json *j = &p->json;

	print_json_begin(p, "site");
	json_text(j, "watch", s->key.watch->e.name);
	json_text(j, "kind", text_kind_name(s->key.kind));
	json_text(j, "origin", s->key.origin == ORIGIN_KERNEL ? "kernel" : "user");
	json_hex(j, s->key.after ? "next_ip" : "ip", s->key.ip);
	json_text_if(j, "insn", s->key.insn);
	put_location(j, s->key.location);
	if (s->key.after)
		json_bool(j, "after", true);
	json_number(j, "count", s->count);
	json_number(j, "threads", s->tids.n);
	if (s->has_old)
		put_last_value(j, "old", "old_text", s, s->old_value);
	if (s->old_uncertain)
		json_bool(j, "old_uncertain", true);
	if (s->has_new)
		put_last_value(j, "new", "new_text", s, s->new_value);
	print_json_withheld(j, s->withheld ? WITHHELD_VALUES : 0);
	json_number(j, "first_ns", s->first.mono_ns);
	json_number(j, "last_ns", s->last.mono_ns);
	print_json_end(p);
}

static void put_sites(void *ctx, const struct sites *s)
{
	size_t i;

	for (i = 0; i < s->n; i++)
		put_site(ctx, s->v[i]);
}

struct printer *print_json_new(FILE *out, const struct print_options *options)
{
	static const struct view_subscription events[] = {
		{ EVENT_PROCESS, put_process },
		{ EVENT_MISSING, put_missing },
		{ EVENT_RECORDING, print_json_recording },
		{ EVENT_THREAD, print_json_thread },
		{ VIEW_ANY, put_as_it_is },
		{ 0 },
	};
	static const struct view_ops ops = {
		.events = events,
		.armed = put_armed,
		.access = put_access,
		.capture = put_capture,
		.probe_site = print_json_probe_site,
		.probe = print_json_probe,
		.probe_total = print_json_probe_total,
		.lost = put_lost,
		.summary = put_summary,
		.sites = put_sites,
		.probes = print_json_probes,
		.tags = print_json_tags,
		.stacks = print_json_stacks,
		.call = print_json_call,
		.ret = print_json_return,
		.step = print_json_step,
		.signal = print_json_signal,
		.blocked = print_json_blocked,
		.input = print_json_input,
		.steps = print_json_steps,
	};
	struct printer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->ops = &ops;
	p->out = out;
	p->opt = *options;
	return p;
}
