#include "watchctl/view/event/annotate.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/dwarf/value_type.h"
#include "watchctl/code/insn/disasm.h"
#include "watchctl/code/insn/insn.h"
#include "watchctl/trace/event_access.h"
#include "watchctl/trace/rows/event_copy.h"
#include "watchctl/trace/rows/event_fields.h"
#include "watchctl/view/event/annotate_probe.h"
#include "watchctl/view/event/annotate_step.h"
#include "watchctl/view/event/frames.h"
#include "watchctl/view/event/log_symbols.h"
#include "watchctl/view/event/tag_names.h"

#define VALUE_TEXT 160
#define INSN_TEXT 96

/* The text of the instruction at an address; code may be replaced there (JIT, dlopen), so with its bytes. */
struct insn_entry {
	uint8_t len, bytes[INSN_MAX];
	char text[INSN_TEXT];
};

struct annotate {
	struct symbolizer *symbolizer;
	bool own_symbolizer;
	unsigned int flags;
	enum insn_syntax syntax;
	struct views views;

	struct map64 watches; /* id -> struct annotated_watch */
	struct map64 threads; /* pid, tid -> char * */
	struct map64 code;    /* pc -> struct code_fact */
	struct map64 insns;   /* address -> struct insn_entry */
	struct trampolines trampolines;
	struct frames frames;
	struct tag_names tags;
	struct annotate_steps *steps;
	struct annotate_probes *probes;
	struct {
		uint64_t shown, lost;
		uint64_t first_ns, last_ns;
		bool reported; /* that there are captures, or were to be: they have a summary */
		bool summed_up;
	} captures;
	bool recording; /* a step recording was reported */
	bool partial;	/* the log does not hold all that was recorded */
	int32_t pid;	/* of the first process reported; 0: none yet */
	bool has_realtime;
	uint64_t realtime_offset; /* add to CLOCK_MONOTONIC */

	/* Modules whose file is not the one that was mapped, told once each. */
	const char **stale;
	size_t nstale, stale_cap;

	char old_text[VALUE_TEXT], new_text[VALUE_TEXT];
};

#define REPORT(a, op, ...) VIEWS_REPORT(&(a)->views, op, __VA_ARGS__)

static struct view_time at(const struct annotate *a, uint64_t time_ns)
{
	return (struct view_time){ .mono_ns = time_ns,
				   .real_ns = a->has_realtime ? time_ns + a->realtime_offset : 0 };
}

static uint64_t thread_key(int32_t pid, int32_t tid)
{
	return annotate_thread_key(pid, tid);
}

/* As it is. */
static void report_event(struct annotate *a, const struct trace_event *e)
{
	struct view_event v = { .time = at(a, e->time_ns), .raw = e };
	int32_t pid, tid;

	if (event_thread(e, &pid, &tid))
		v.comm = map64_get(&a->threads, thread_key(pid, tid));
	for (size_t i = 0; i < a->views.n; i++)
		view_put(&a->views.v[i], &v);
}

static void report_note(struct annotate *a, const char *text, uint64_t time_ns)
{
	report_event(a, &(struct trace_event){ .type = EVENT_NOTE, .time_ns = time_ns, .note = { text } });
}

/* Watches */

/* Held for the views, with all that it points to. */
struct annotated_watch {
	struct view_watch view;
	struct trace_event *event;
};

static void watch_free(void *watch)
{
	struct annotated_watch *w = watch;

	free(w->event);
	free(w);
}

static bool watch_set(struct view_watch *watch, const struct watch_event *e)
{
	struct annotated_watch *w = (struct annotated_watch *)watch;
	const struct trace_event event = { .type = EVENT_WATCH, .watch = *e };
	struct trace_event *copy = event_dup(&event);

	if (!copy)
		return false;
	free(w->event);
	w->event = copy;
	w->view.e = copy->watch;
	if (!w->view.e.name)
		w->view.e.name = "";
	return true;
}

/* The watch @id; one that was never told is made up, so that its accesses are not lost. */
static struct view_watch *watch_of(struct annotate *a, uint32_t id)
{
	struct annotated_watch *w = map64_get(&a->watches, id);
	char name[32];

	if (w)
		return &w->view;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	snprintf(name, sizeof(name), "watch %u", id);
	if (watch_set(&w->view, &(struct watch_event){ .id = id, .slot = -1, .name = name }) &&
	    map64_put(&a->watches, id, w))
		return &w->view;
	watch_free(w);
	return NULL;
}

static struct wc_error *on_watch(struct annotate *a, const struct watch_event *e, uint64_t time_ns)
{
	struct view_watch *w = watch_of(a, e->id);

	if (!w || !watch_set(w, e))
		return &wc_enomem;
	w->known = true;
	REPORT(a, armed, w, at(a, time_ns));
	return NULL;
}

void annotate_value(struct annotate *a, const struct view_watch *w, unsigned int size, uint64_t raw,
		    char *buf, size_t len)
{
	char symbol[VALUE_TEXT];
	bool named = w->e.type.kind == VALUE_POINTER && raw &&
		     symbolizer_data_name(a->symbolizer, raw, symbol, sizeof(symbol));

	value_format(&w->e.type, size, raw, named ? symbol : NULL, buf, len);
}

struct symbolizer *annotate_symbolizer(struct annotate *a)
{
	return a->symbolizer;
}

/* Facts about the process */

static struct wc_error *keep_comm(struct annotate *a, int32_t pid, int32_t tid, const char *comm)
{
	char *old = map64_get(&a->threads, thread_key(pid, tid));
	char *text = strdup(comm ? comm : "");

	if (!text || !map64_put(&a->threads, thread_key(pid, tid), text)) {
		free(text);
		return &wc_enomem;
	}
	free(old);
	return NULL;
}

/* The process has executed another program: no address means what it meant. */
static void forget_program(struct annotate *a)
{
	frames_flush(&a->frames);
	trampolines_remove(&a->trampolines, 0, UINT64_MAX);
	if (a->own_symbolizer)
		symbolizer_remove(a->symbolizer, 0, UINT64_MAX);
}

static struct wc_error *on_process(struct annotate *a, const struct trace_event *e)
{
	const struct process_event *p = &e->process;

	if (p->pid == a->pid)
		forget_program(a);
	else if (!a->pid)
		a->pid = p->pid;
	a->has_realtime = p->realtime_ns != 0;
	a->realtime_offset = p->realtime_ns - e->time_ns;
	if (a->own_symbolizer && !log_symbols_process(a->symbolizer, p, 0))
		return &wc_enomem;
	report_event(a, e);
	/* The main thread, until an event of its own says more. */
	return keep_comm(a, p->pid, p->pid, p->comm);
}

static struct wc_error *on_module(struct annotate *a, const struct module *m, bool gone)
{
	frames_flush(&a->frames);
	if (gone)
		trampolines_remove(&a->trampolines, m->start, m->end);
	else if (!trampolines_add(&a->trampolines, m))
		return &wc_enomem;
	if (!a->own_symbolizer)
		return NULL;
	if (gone)
		symbolizer_remove(a->symbolizer, m->start, m->end);
	else if (!symbolizer_add(a->symbolizer, m))
		return &wc_enomem;
	return NULL;
}

static struct wc_error *on_code(struct annotate *a, const struct code_fact *fact)
{
	struct code_fact *old = map64_get(&a->code, fact->pc), *c;

	if (old) {
		*old = *fact;
		return NULL;
	}
	c = malloc(sizeof(*c));
	if (!c)
		return &wc_enomem;
	*c = *fact;
	if (!map64_put(&a->code, c->pc, c)) {
		free(c);
		return &wc_enomem;
	}
	return NULL;
}

/* Accesses */

static void annotate_resolve(struct annotate *a, const struct access_event *e, const struct view_watch *w,
			     struct access_verdict *ret)
{
	event_access_resolve(e, w->known ? &w->e : NULL, map64_get(&a->code, e->regs.r[WREG_RIP]),
			     e->nframes > 1 ? map64_get(&a->code, e->frame[1]) : NULL, ret);
}

static const char *text_of(struct annotate *a, const struct access_verdict *v)
{
	struct insn_entry *entry;

	if (!v->insn || !v->len)
		return NULL;
	entry = map64_get(&a->insns, v->insn);
	if (!entry) {
		entry = calloc(1, sizeof(*entry));
		if (!entry || !map64_put(&a->insns, v->insn, entry)) {
			free(entry);
			return NULL;
		}
	}
	if (entry->len != v->len || memcmp(entry->bytes, v->bytes, v->len) != 0) {
		entry->len = v->len;
		memcpy(entry->bytes, v->bytes, v->len);
		disasm_text(a->syntax, v->bytes, v->len, v->insn, entry->text, sizeof(entry->text));
	}
	return entry->text[0] ? entry->text : NULL;
}

static struct wc_error *report_stale(struct annotate *a, const struct location *l, uint64_t time_ns)
{
	char text[512];
	size_t i;

	for (i = 0; i < a->nstale; i++)
		if (!strcmp(a->stale[i], l->module))
			return NULL;
	if (!vec_push(a->stale, a->nstale, a->stale_cap, l->module))
		return &wc_enomem;
	snprintf(text, sizeof(text),
		 "%s has changed since the process mapped it (different build id): it is not used for names",
		 l->module);
	report_note(a, text, time_ns);
	return NULL;
}

static void annotate_count(struct view_watch *w, uint64_t time_ns)
{
	if (w->shown == 0 || time_ns < w->first_ns)
		w->first_ns = time_ns;
	if (time_ns > w->last_ns)
		w->last_ns = time_ns;
	w->shown++;
}

static void add_values(struct annotate *a, const struct access_event *e, struct view_access *va)
{
	if (a->flags & ANNOTATE_NO_VALUES)
		return;
	if (e->withheld & WITHHELD_VALUES)
		va->old_text = va->new_text = view_withheld;
	if (e->has_old) {
		annotate_value(a, va->watch, e->size, e->old_value, a->old_text, sizeof(a->old_text));
		va->old_text = a->old_text;
	}
	if (e->has_new) {
		annotate_value(a, va->watch, e->size, e->new_value, a->new_text, sizeof(a->new_text));
		va->new_text = a->new_text;
	}
}

static struct wc_error *on_access(struct annotate *a, const struct access_event *e, uint64_t time_ns)
{
	struct view_watch *w = watch_of(a, e->watch);
	struct access_verdict v;
	struct view_access va;
	struct wc_error *err;

	if (!w)
		return &wc_enomem;
	annotate_resolve(a, e, w, &v);
	if (w->known && w->e.access == ACCESS_READ && v.kind == ACCESS_WRITE) {
		w->dropped++;
		return NULL;
	}
	annotate_count(w, time_ns);

	va = (struct view_access){
		.time = at(a, time_ns),
		.raw = e,
		.watch = w,
		.comm = map64_get(&a->threads, thread_key(e->pid, e->tid)),
		.kind = v.kind,
		.origin = v.origin,
		.ip = v.insn,
		.location = symbolizer_lookup(a->symbolizer, v.insn ? v.insn : e->regs.r[WREG_RIP]),
		.walk_end = e->walk_end,
	};
	if (va.location->stale && va.location->module) {
		err = report_stale(a, va.location, time_ns);
		if (err)
			return err;
	}
	if (a->flags & ANNOTATE_STACK) {
		if (!frames_expand(&a->frames, e, &v))
			return &wc_enomem;
		va.frame = a->frames.v;
		va.nframes = a->frames.n;
	}
	if (a->flags & ANNOTATE_TEXT) {
		va.insn = text_of(a, &v);
		add_values(a, e, &va);
	}
	REPORT(a, access, &va);
	return NULL;
}

/* Captures */

static void count_capture(struct annotate *a, struct view_tag *tag, uint64_t time_ns)
{
	if (a->captures.shown == 0 || time_ns < a->captures.first_ns)
		a->captures.first_ns = time_ns;
	if (time_ns > a->captures.last_ns)
		a->captures.last_ns = time_ns;
	a->captures.shown++;
	a->captures.reported = true;
	tag->captures++;
}

static struct wc_error *on_capture(struct annotate *a, const struct capture_event *e, uint64_t time_ns)
{
	struct view_tag *tag = tag_names_get(&a->tags, e->tag);
	/* Of the innermost frame alone, when no more is wanted: it is the place. */
	uint32_t nframes = a->flags & ANNOTATE_STACK || !e->nframes ? e->nframes : 1;
	const struct location *place;
	struct view_capture c;
	struct wc_error *err;

	if (!tag || !frames_expand_returns(&a->frames, e->frame, nframes))
		return &wc_enomem;
	place = nframes ? symbolizer_lookup(a->symbolizer, e->frame[0] - 1) : NULL;
	if (place && place->stale && place->module) {
		err = report_stale(a, place, time_ns);
		if (err)
			return err;
	}
	count_capture(a, tag, time_ns);
	c = (struct view_capture){
		.time = at(a, time_ns),
		.raw = e,
		.tag = tag,
		.comm = map64_get(&a->threads, thread_key(e->pid, e->tid)),
		.frame = a->frames.v,
		.nframes = a->frames.n,
		.walk_end = e->walk_end,
	};
	REPORT(a, capture, &c);
	return NULL;
}

/* Endings */

static struct wc_error *on_lost(struct annotate *a, const struct lost_event *l, uint64_t time_ns)
{
	struct view_watch *w = NULL;

	if (l->watch == WATCH_CAPTURES) {
		a->captures.lost += l->count;
		a->captures.reported = true;
	} else if (l->watch == WATCH_PROBES) {
		annotate_probes_lost(a->probes, l->count);
	} else if (l->watch != UINT32_MAX && l->watch != WATCH_CALLS) {
		w = watch_of(a, l->watch);
	}
	if (w)
		w->lost += l->count;
	REPORT(a, lost, w, l, at(a, time_ns));
	return NULL;
}

static struct wc_error *on_summary(struct annotate *a, const struct summary_event *e)
{
	struct view_summary s = { .e = *e, .complete = true, .partial = a->partial };
	struct view_watch *w;

	if (e->watch == WATCH_PROBES) {
		annotate_probes_sum_up(a->probes, e, a->partial);
		return NULL;
	}
	if (e->watch == WATCH_CAPTURES) {
		a->captures.summed_up = true;
		s.held = a->captures.shown;
		REPORT(a, summary, &s);
		return NULL;
	}
	w = watch_of(a, e->watch);
	if (!w)
		return &wc_enomem;
	s.watch = w;
	s.held = w->shown;
	/* What was dropped here had been recorded there; the sum stays. */
	if (w->dropped <= s.e.recorded) {
		s.e.recorded -= w->dropped;
		s.e.filtered += w->dropped;
	}
	w->summed_up = true;
	REPORT(a, summary, &s);
	return NULL;
}

static int by_id(const void *a, const void *b)
{
	const struct view_watch *const *x = a, *const *y = b;

	return ((*x)->e.id > (*y)->e.id) - ((*x)->e.id < (*y)->e.id);
}

static void sum_up(struct annotate *a, struct view_watch *w)
{
	struct view_summary s = { .watch = w };

	s.e = (struct summary_event){
		.watch = w->e.id,
		.recorded = w->shown,
		.lost = w->lost,
		.filtered = w->dropped,
		.duration_ns = w->last_ns - w->first_ns,
	};
	w->summed_up = true;
	REPORT(a, summary, &s);
}

static void sum_up_captures(struct annotate *a)
{
	struct view_summary s = {
		.e = { .watch = WATCH_CAPTURES,
		       .recorded = a->captures.shown,
		       .lost = a->captures.lost,
		       .duration_ns = a->captures.last_ns - a->captures.first_ns },
	};

	if (!a->captures.reported || a->captures.summed_up)
		return;
	a->captures.summed_up = true;
	REPORT(a, summary, &s);
}

void annotate_finish(struct annotate *a)
{
	struct view_watch **v = calloc(a->watches.n + 1, sizeof(struct view_watch *));
	size_t i, n = 0;

	if (!v)
		return;
	for (i = 0; i < a->watches.cap; i++)
		if (a->watches.slot[i].used)
			v[n++] = a->watches.slot[i].value;
	qsort(v, n, sizeof(struct view_watch *), by_id);
	for (i = 0; i < n; i++)
		if (!v[i]->summed_up)
			sum_up(a, v[i]);
	free(v);
	sum_up_captures(a);
	annotate_probes_sum_up(a->probes, NULL, a->partial);
}

/* The sink */

static struct wc_error *annotate_put(void *ctx, const struct trace_event *e)
{
	struct annotate *a = ctx;

	switch (e->type) {
	case EVENT_PROCESS:
		return on_process(a, e);
	case EVENT_THREAD:
		if (a->recording)
			report_event(a, e);
		return keep_comm(a, e->thread.pid, e->thread.tid, e->thread.comm);
	case EVENT_MODULE:
		return on_module(a, &e->module, false);
	case EVENT_MODULE_GONE:
		return on_module(a, &e->module, true);
	case EVENT_WATCH:
		return on_watch(a, &e->watch, e->time_ns);
	case EVENT_SYMBOL:
		return !a->own_symbolizer || log_symbols_report(a->symbolizer, &e->symbol) ? NULL
											   : &wc_enomem;
	case EVENT_CODE:
		return on_code(a, &e->code);
	case EVENT_ACCESS:
		return on_access(a, &e->access, e->time_ns);
	case EVENT_LOST:
		return on_lost(a, &e->lost, e->time_ns);
	case EVENT_MISSING:
		a->partial = true;
		if (e->missing.bytes || e->missing.events || e->missing.why)
			report_event(a, e);
		return NULL;
	case EVENT_SUMMARY:
		return on_summary(a, &e->summary);
	case EVENT_TAG:
		return tag_names_add(&a->tags, &e->tag) ? NULL : &wc_enomem;
	case EVENT_CAPTURE:
		return on_capture(a, &e->capture, e->time_ns);
	case EVENT_TYPE:
	case EVENT_FUNCTION:
	case EVENT_CALL:
	case EVENT_RETURN:
	case EVENT_STEP:
	case EVENT_SIGNAL:
	case EVENT_BLOCKED:
	case EVENT_INPUT:
		return annotate_steps_put(a->steps, e, at(a, e->time_ns));
	case EVENT_RECORDING:
		a->recording = true;
		break;
	case EVENT_PROBE_SITE:
	case EVENT_PROBE:
	case EVENT_PROBE_TOTAL:
		return annotate_probes_put(a->probes, e, at(a, e->time_ns), a->syntax);
	case EVENT_REGION: /* no view shows mappings */
		return NULL;
	default:
		break;
	}
	report_event(a, e);
	return NULL;
}

struct event_sink annotate_sink(struct annotate *a)
{
	return (struct event_sink){ .put = annotate_put, .ctx = a };
}

struct annotate *annotate_new(struct symbolizer *shared, unsigned int flags)
{
	struct annotate *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->flags = flags;
	a->own_symbolizer = !shared;
	a->symbolizer = shared ? shared : symbolizer_new();
	if (!a->symbolizer) {
		free(a);
		return NULL;
	}
	frames_init(&a->frames, a->symbolizer, &a->code, &a->trampolines);
	a->steps = annotate_steps_new(&a->frames, &a->threads, flags, &a->views);
	a->probes = annotate_probes_new(&a->frames, &a->threads, flags, &a->views);
	if (!a->steps || !a->probes) {
		annotate_free(a);
		return NULL;
	}
	return a;
}

void annotate_set_syntax(struct annotate *a, enum insn_syntax syntax)
{
	a->syntax = syntax;
}

enum insn_syntax annotate_syntax(const struct annotate *a)
{
	return a->syntax;
}

void annotate_add_view(struct annotate *a, struct view v)
{
	assert(a->views.n < VIEWS_MAX);
	a->views.v[a->views.n++] = v;
}

void annotate_free(struct annotate *a)
{
	if (!a)
		return;
	map64_deinit_values(&a->watches, watch_free);
	map64_deinit_values(&a->threads, free);
	map64_deinit_values(&a->code, free);
	map64_deinit_values(&a->insns, free);
	frames_deinit(&a->frames);
	trampolines_deinit(&a->trampolines);
	tag_names_deinit(&a->tags);
	annotate_steps_free(a->steps);
	annotate_probes_free(a->probes);
	free(a->stale);
	if (a->own_symbolizer)
		symbolizer_free(a->symbolizer);
	free(a);
}

void annotate_freep(struct annotate **a)
{
	annotate_free(*a);
}
