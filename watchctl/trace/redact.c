#include "watchctl/code/dwarf/demangle.h"
#include "watchctl/trace/redact.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/call_values.h"
#include "watchctl/trace/change_note.h"
#include "watchctl/trace/event_access.h"

#define EXPR_MAX 1024

/* The outermost open call of a thread whose values are withheld: so are those of all calls inside of it. */
struct withheld_call {
	uint64_t call; /* 0: none */
	uint16_t depth;
	/* The innermost open calls by depth, as far as they are known, else 0. */
	uint64_t *open;
	size_t nopen, open_cap;
};

struct withheld_function {
	bool withheld;
	uint32_t nparams;
};

struct redact {
	struct redact_rules rules;
	bool *used; /* the rule has matched something */
	struct event_sink next;
	bool reported;		/* that something is withheld */
	bool any_watch;		/* is withheld */
	struct map64 watches;	/* id -> struct watch_event, without texts */
	struct map64 code;	/* pc -> struct code_fact */
	struct map64 functions; /* id -> struct withheld_function */
	struct map64 threads;	/* pid, tid -> struct withheld_call */
	struct map64 tags;	/* id -> the redact itself: withheld */
	uint64_t last_call;
	bool calls_missing; /* of a log that was damaged: what they were inside of is not known */
	struct module_range {
		uint64_t start, end;
	} * module;
	size_t nmodules, modules_cap;
};

/* Names */

static bool matches(const char *pattern, const char *text)
{
	return !strcmp(pattern, text) || !fnmatch(pattern, text, 0);
}

static bool is_name_char(char c)
{
	return c == '_' || c == '$' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

/* More is withheld than was meant rather than less: each name in the expression counts, and what follows it.
 */
bool redact_names_watch(const char *pattern, const char *expr)
{
	char copy[EXPR_MAX];
	size_t i, len = strlen(expr);

	if (matches(pattern, expr) || len >= sizeof(copy))
		return matches(pattern, expr) || len >= sizeof(copy);
	for (i = 0; i < len; i++) {
		size_t end = i;

		if (!is_name_char(expr[i]) || (i && is_name_char(expr[i - 1])))
			continue;
		while (is_name_char(expr[end]))
			end++;
		memcpy(copy, expr + i, end - i);
		copy[end - i] = '\0';
		if (matches(pattern, copy) || matches(pattern, expr + i))
			return true;
	}
	return false;
}

bool redact_names_function(const char *pattern, const char *name)
{
	scoped(freep) char *bare = strdup(name);
	const char *scope;

	if (!bare || matches(pattern, name))
		return true;
	bare[strcspn(bare, "(@[")] = '\0';
	if (*bare && matches(pattern, bare))
		return true;
	for (scope = bare; (scope = strstr(scope, "::")); scope += 2)
		if (matches(pattern, scope + 2))
			return true;
	return false;
}

bool redact_names_tag(const char *pattern, const char *name)
{
	return matches(pattern, name);
}

static bool is_named(struct redact *r, const char *text, bool (*names)(const char *, const char *))
{
	bool any = false;
	size_t i;

	for (i = 0; text && i < r->rules.n; i++) {
		if (!names(r->rules.name[i], text))
			continue;
		r->used[i] = any = true;
	}
	return any;
}

const char *redact_unused(const struct redact *r, size_t *from)
{
	while (*from < r->rules.n)
		if (!r->used[(*from)++])
			return r->rules.name[*from - 1];
	return NULL;
}

/* Out */

static struct wc_error *redact_put(struct redact *r, const struct trace_event *e)
{
	return r->next.put(r->next.ctx, e);
}

/* So that nobody takes what is missing for what was not there. */
static struct wc_error *redact_report(struct redact *r, uint64_t time_ns)
{
	struct trace_event note = { .type = EVENT_NOTE, .time_ns = time_ns };
	char text[1024] = "values are withheld: of memory and registers, none are in this log (--no-values)";
	size_t i, n;

	r->reported = true;
	if (!r->rules.all) {
		n = (size_t)snprintf(text, sizeof(text), "values are withheld, and all registers:");
		for (i = 0; i < r->rules.n && n < sizeof(text); i++)
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%s \"%s\"", i ? "," : "",
					      r->rules.name[i]);
		if (n < sizeof(text))
			snprintf(text + n, sizeof(text) - n, r->rules.n ? " (--redact)" : " of a watch");
	}
	note.note.text = text;
	return redact_put(r, &note);
}

/* Watches and their accesses */

/* The same bytes have the same values, whatever they are watched as. */
static bool overlaps_withheld(const struct redact *r, uint64_t addr, uint32_t size)
{
	size_t i;

	for (i = 0; r->any_watch && i < r->watches.cap; i++) {
		const struct watch_event *w = r->watches.slot[i].used ? r->watches.slot[i].value : NULL;

		if (w && w->withheld && addr < w->addr + w->size && w->addr < addr + size)
			return true;
	}
	return false;
}

static struct wc_error *on_watch(struct redact *r, struct trace_event *e)
{
	struct watch_event *w = &e->watch, *kept = map64_get(&r->watches, w->id);
	/* Both are looked at: each rule that is meant counts as used. */
	bool named = is_named(r, w->name, redact_names_watch);

	named |= is_named(r, w->full_name, redact_names_watch);
	w->withheld |= named || r->rules.all || overlaps_withheld(r, w->addr, w->size);
	r->any_watch |= w->withheld;
	if (w->withheld) {
		w->has_value = false;
		w->value = 0;
	}
	if (!kept) {
		kept = malloc(sizeof(*kept));
		if (!kept || !map64_put(&r->watches, w->id, kept)) {
			free(kept);
			return &wc_enomem;
		}
	}
	*kept = (struct watch_event){ .id = w->id,
				      .addr = w->addr,
				      .size = w->size,
				      .access = w->access,
				      .steps_trap = w->steps_trap,
				      .withheld = w->withheld };
	return NULL;
}

static bool is_withheld(const struct redact *r, const struct access_event *a)
{
	const struct watch_event *w = map64_get(&r->watches, a->watch);

	return r->rules.all || (w && w->withheld) || overlaps_withheld(r, a->addr, a->size);
}

static void withhold_registers(struct redact *r, struct access_event *a)
{
	uint64_t rip = a->regs.r[WREG_RIP];
	struct access_verdict v;

	if (a->withheld & WITHHELD_REGS)
		return;
	event_access_resolve(a, map64_get(&r->watches, a->watch), map64_get(&r->code, rip),
			     a->nframes > 1 ? map64_get(&r->code, a->frame[1]) : NULL, &v);
	a->known_kind = (uint8_t)v.kind;
	a->known_insn = v.insn;
	a->known_in_caller = v.in_caller;
	memset(&a->regs, 0, sizeof(a->regs));
	a->regs.r[WREG_RIP] = rip;
	a->withheld |= WITHHELD_REGS;
}

static void on_access(struct redact *r, struct access_event *a)
{
	bool values = is_withheld(r, a);

	if (values || r->any_watch || redact_is_asked(&r->rules))
		withhold_registers(r, a);
	if (!values)
		return;
	a->withheld |= WITHHELD_VALUES;
	a->has_old = a->has_new = a->old_uncertain = false;
	a->old_value = a->new_value = 0;
}

/* Modules and code */

static struct wc_error *on_module(struct redact *r, const struct module *m, bool gone)
{
	size_t i;

	for (i = r->nmodules; gone && i-- > 0;)
		if (r->module[i].start == m->start && r->module[i].end == m->end)
			r->module[i] = r->module[--r->nmodules];
	if (gone)
		return NULL;
	return vec_push(r->module, r->nmodules, r->modules_cap, ((struct module_range){ m->start, m->end }))
		       ? NULL
		       : &wc_enomem;
}

static bool is_in_module(const struct redact *r, uint64_t pc)
{
	size_t i;

	for (i = 0; i < r->nmodules; i++)
		if (pc >= r->module[i].start && pc < r->module[i].end)
			return true;
	return false;
}

static struct wc_error *on_code(struct redact *r, struct code_fact *f)
{
	struct code_fact *kept = map64_get(&r->code, f->pc);

	if (!kept) {
		kept = malloc(sizeof(*kept));
		if (!kept || !map64_put(&r->code, f->pc, kept)) {
			free(kept);
			return &wc_enomem;
		}
	}
	*kept = *f;
	if (r->rules.all && !is_in_module(r, f->pc))
		*f = (struct code_fact){ .pc = f->pc, .function_start = f->function_start };
	return NULL;
}

/* Captures */

static struct wc_error *on_tag(struct redact *r, const struct tag_event *t)
{
	char number[24];

	snprintf(number, sizeof(number), "%llu", (unsigned long long)t->number);
	if (is_named(r, t->name ? t->name : number, redact_names_tag) && !map64_put(&r->tags, t->id, r))
		return &wc_enomem;
	return NULL;
}

static void on_capture(const struct redact *r, struct capture_event *c)
{
	if (!c->has_value || !(r->rules.all || map64_get(&r->tags, c->tag)))
		return;
	c->has_value = false;
	c->value = 0;
	c->withheld = true;
}

/* Calls */

/* By its name, that of the linker if a compiler's pass has told it, or as people write it. */
static bool is_named_function(struct redact *r, const char *name)
{
	scoped(freep) char *plain = demangle(name);
	const bool as_told = is_named(r, name, redact_names_function);

	return is_named(r, plain, redact_names_function) || as_told;
}

static struct wc_error *on_function(struct redact *r, const struct function_event *f)
{
	struct withheld_function *kept = map64_get(&r->functions, f->id);
	const char *slash = f->module ? strrchr(f->module, '/') : NULL;
	char place[512];

	if (!kept) {
		kept = malloc(sizeof(*kept));
		if (!kept || !map64_put(&r->functions, f->id, kept)) {
			free(kept);
			return &wc_enomem;
		}
	}
	/* What a reader calls it where it has no name. */
	snprintf(place, sizeof(place), "%s+0x%llx",
		 slash	     ? slash + 1
		 : f->module ? f->module
			     : "",
		 (unsigned long long)f->address);
	*kept = (struct withheld_function){
		.withheld = is_named_function(r, f->name ? f->name : place) || r->rules.all,
		.nparams = f->nparams,
	};
	return NULL;
}

static struct withheld_call *thread_of(struct redact *r, int32_t pid, int32_t tid)
{
	uint64_t key = (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
	struct withheld_call *t = map64_get(&r->threads, key);

	if (t)
		return t;
	t = calloc(1, sizeof(*t));
	if (t && !map64_put(&r->threads, key, t)) {
		free(t);
		t = NULL;
	}
	return t;
}

static void thread_free(void *thread)
{
	struct withheld_call *t = thread;

	free(t->open);
	free(t);
}

/* Whether all calls that @c is inside of have been seen. */
static bool knows_callers(struct redact *r, struct withheld_call *t, const struct call_event *c)
{
	r->calls_missing |= c->call != r->last_call + 1;
	r->last_call = c->call;
	return !r->calls_missing || !c->parent ||
	       (c->depth && c->depth <= t->nopen && t->open[c->depth - 1] == c->parent);
}

static bool note_open(struct withheld_call *t, const struct call_event *c)
{
	while (t->nopen < c->depth)
		if (!vec_push(t->open, t->nopen, t->open_cap, (uint64_t)0))
			return false;
	t->nopen = c->depth;
	return vec_push(t->open, t->nopen, t->open_cap, c->call);
}

/* A function that was never told could be any. */
static bool is_withheld_function(const struct redact *r, uint32_t id)
{
	const struct withheld_function *f = map64_get(&r->functions, id);

	return r->rules.all || !f || f->withheld;
}

static struct wc_error *put_call(struct redact *r, struct trace_event *e)
{
	static const uint8_t withheld[FUNCTION_PARAMS_MAX] = { [0 ... FUNCTION_PARAMS_MAX - 1] =
								       VALUE_WITHHELD };
	const struct withheld_function *f = map64_get(&r->functions, e->call.function);
	struct withheld_call *t = thread_of(r, e->call.pid, e->call.tid);
	bool known;

	if (!t)
		return &wc_enomem;
	if (t->call && e->call.depth <= t->depth)
		t->call = 0;
	known = knows_callers(r, t, &e->call);
	if (!note_open(t, &e->call))
		return &wc_enomem;
	if (!t->call && (!known || is_withheld_function(r, e->call.function))) {
		t->call = e->call.call;
		t->depth = e->call.depth;
	}
	if (t->call && e->call.values_len) {
		e->call.values = withheld;
		e->call.values_len = f && f->nparams < FUNCTION_PARAMS_MAX ? f->nparams : FUNCTION_PARAMS_MAX;
	}
	return redact_put(r, e);
}

static struct wc_error *put_return(struct redact *r, struct trace_event *e)
{
	static const uint8_t withheld = VALUE_WITHHELD;
	struct withheld_call *t = thread_of(r, e->ret.pid, e->ret.tid);
	bool inside;

	if (!t)
		return &wc_enomem;
	inside = (t->call && e->ret.call >= t->call) || is_withheld_function(r, e->ret.function);
	if (e->ret.call <= t->call)
		t->call = 0;
	if (inside) {
		e->ret.has_error = false;
		e->ret.error = 0;
	}
	/* Behind a result that there is none of may be what the call has changed in memory. */
	if (inside && e->ret.values_len && (e->ret.values_len > 1 || e->ret.values[0] != VALUE_NONE)) {
		e->ret.values = &withheld;
		e->ret.values_len = 1;
	}
	return redact_put(r, e);
}

static struct wc_error *put_process(struct redact *r, struct trace_event *e)
{
	if (r->rules.all && e->process.cmdline)
		e->process.cmdline = e->process.exe;
	return redact_put(r, e);
}

/* What a withheld value is made from comes in here: so any rule withholds the bytes of all of them. */
static void on_input(const struct redact *r, struct input_event *e)
{
	if (!redact_is_asked(&r->rules))
		return;
	e->withheld = true;
	e->bytes = NULL;
	e->len = e->hashed = 0;
	e->hash = 0;
}

/* Probes */

/* Code that is in no file may have values of the program in it. */
static void on_probe_site(struct redact *r, struct probe_site_event *s)
{
	is_named(r, s->probe, redact_names_tag); /* the rule is used, and any rule withholds all: */
	if (!r->rules.all || is_in_module(r, s->ip))
		return;
	s->ninsn = 0;
	memset(s->insn, 0, sizeof(s->insn));
}

/* Arguments are registers and memory: like those of accesses, any rule withholds the ones of all probes. */
static void on_probe(struct redact *r, struct probe_event *e)
{
	if (e->kind == PROBE_KIND_STACK)
		is_named(r, e->format, redact_names_tag);
	if (!(r->any_watch || redact_is_asked(&r->rules)) || !e->nargs)
		return;
	e->withheld = true;
	e->nargs = e->strings = e->unread = 0;
	memset(e->arg, 0, sizeof(e->arg));
	memset(e->string, 0, sizeof(e->string));
}

/* Of whichever watch: rather too much is withheld than too little. */
static struct wc_error *put_note(struct redact *r, struct trace_event *e)
{
	bool ok = true;
	scoped(freep) char *cut =
		r->any_watch || redact_is_asked(&r->rules) ? change_note_withhold(e->note.text, &ok) : NULL;

	if (!ok)
		return &wc_enomem;
	if (cut)
		e->note.text = cut;
	return redact_put(r, e);
}

static struct wc_error *alter(struct redact *r, struct trace_event *e)
{
	struct wc_error *err = NULL;

	switch (e->type) {
	case EVENT_PROCESS:
		return put_process(r, e);
	case EVENT_MODULE:
	case EVENT_MODULE_GONE:
		err = on_module(r, &e->module, e->type == EVENT_MODULE_GONE);
		break;
	case EVENT_WATCH:
		err = on_watch(r, e);
		break;
	case EVENT_CODE:
		err = on_code(r, &e->code);
		break;
	case EVENT_ACCESS:
		on_access(r, &e->access);
		break;
	case EVENT_TAG:
		err = on_tag(r, &e->tag);
		break;
	case EVENT_CAPTURE:
		on_capture(r, &e->capture);
		break;
	case EVENT_FUNCTION:
		err = on_function(r, &e->function);
		break;
	case EVENT_RECORDING:
		if (redact_is_asked(&r->rules) && e->recording.withheld != RECORDING_WITHHELD_ALL)
			e->recording.withheld =
				r->rules.all ? RECORDING_WITHHELD_ALL : RECORDING_WITHHELD_SOME;
		break;
	case EVENT_INPUT:
		on_input(r, &e->input);
		break;
	case EVENT_PROBE_SITE:
		on_probe_site(r, &e->probe_site);
		break;
	case EVENT_PROBE:
		on_probe(r, &e->probe);
		break;
	case EVENT_NOTE:
		return put_note(r, e);
	case EVENT_CALL:
		return put_call(r, e);
	case EVENT_RETURN:
		return put_return(r, e);
	/* Nothing of the program's values. A new type belongs to these or to those above: there is no default. */
	case EVENT_THREAD:
	case EVENT_LOST:
	case EVENT_SUMMARY:
	case EVENT_SYMBOL:
	case EVENT_TYPE:
	case EVENT_REGION:
	case EVENT_RANGE:
	case EVENT_STEP:
	case EVENT_SIGNAL:
	case EVENT_BLOCKED:
	case EVENT_PROBE_TOTAL:
	case EVENT_MISSING:
		break;
	}
	return err ? err : redact_put(r, e);
}

static struct wc_error *on_event(void *ctx, const struct trace_event *event)
{
	struct redact *r = ctx;
	struct trace_event e = *event;
	struct wc_error *err = alter(r, &e);

	if (err || r->reported || !(r->any_watch || redact_is_asked(&r->rules)))
		return err;
	return redact_report(r, e.time_ns);
}

struct wc_error *redact_new(const struct redact_rules *rules, struct event_sink next, struct redact **ret)
{
	scoped(freep) struct redact *r = calloc(1, sizeof(*r));

	if (!r)
		return &wc_enomem;
	r->rules = *rules;
	r->next = next;
	r->used = calloc(rules->n + 1, sizeof(*r->used));
	if (!r->used)
		return &wc_enomem;
	*ret = take_ptr(r);
	return NULL;
}

struct event_sink redact_sink(struct redact *r)
{
	return (struct event_sink){ on_event, r };
}

void redact_free(struct redact *r)
{
	if (!r)
		return;
	map64_deinit_values(&r->watches, free);
	map64_deinit_values(&r->code, free);
	map64_deinit_values(&r->functions, free);
	map64_deinit_values(&r->threads, thread_free);
	map64_deinit(&r->tags);
	free(r->module);
	free(r->used);
	free(r);
}
