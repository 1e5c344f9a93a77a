#include "watchctl/monitor/calls/call_trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/clock.h"
#include "watchctl/base/progress.h"
#include "watchctl/base/text_buf.h"
#include "watchctl/code/locate/code_source.h"
#include "watchctl/monitor/calls/call_arguments.h"
#include "watchctl/monitor/calls/call_memory.h"
#include "watchctl/monitor/calls/call_records.h"
#include "watchctl/monitor/patch/patch_session.h"
#include "watchctl/patch/probe/call_probes.h"
#include "watchctl/patch/plan/pattern.h"
#include "watchctl/target/stop/tracee.h"

#define LOOK_NS 1000000000u

enum { RULE_ENTRY, RULE_EXIT, RULES };

struct call_trace {
	struct call_trace_options options;
	struct event_sink sink;
	struct call_functions functions;
	struct call_records records;
	struct call_files *files;	  /* NULL: calls are events */
	struct call_arguments *arguments; /* NULL: no values are recorded */
	bool begun;			  /* functions that are wanted from now on are told at once */
	struct wc_error *err;		  /* of telling them */
	struct probe_image image;
	struct patch_query query;
	struct patch_taker taker;
	struct patch_rule rule[RULES];
	struct patch_session *session;
	enum session_end end;
	uint64_t looked_ns, limit;
};

static struct wc_error *put(struct call_trace *t, struct trace_event *e)
{
	e->time_ns = monotonic_ns();
	return t->sink.put(t->sink.ctx, e);
}

static struct wc_error *look_each_second(struct call_trace *t)
{
	const uint64_t now = monotonic_ns();
	struct wc_error *err;

	if (now - t->looked_ns < LOOK_NS)
		return NULL;
	t->looked_ns = now;
	err = call_records_look_at_threads(&t->records);
	return !err && t->files ? call_files_flush(t->files) : err;
}

/* What the session asks */

/* Takes @why, which nothing ends for: it is about a module that came later. */
static struct wc_error *note_error(struct call_trace *t, struct wc_error *why)
{
	struct trace_event e = { .type = EVENT_NOTE, .note.text = why->text };
	struct wc_error *err = why == &wc_enomem ? &wc_enomem : put(t, &e);

	wc_error_free(why);
	return err;
}

static bool wants_module(void *ctx, const struct module_list *all, const struct module *m)
{
	struct call_trace *t = ctx;
	const bool wanted = call_functions_wants_module(&t->functions, all, m);

	if (t->begun && t->functions.err && !t->err)
		t->err = note_error(t, take_ptr(t->functions.err));
	return wanted;
}

/* Finds out what its parameters and result are, if values are recorded. */
static struct wc_error *plan_function(struct call_trace *t, uint32_t function)
{
	const struct call_function *f = &t->functions.function[function];

	return t->arguments && !f->is_extra && !f->plan
		       ? call_arguments_plan(t->arguments, &t->functions, function)
		       : NULL;
}

static bool wants(void *ctx, const struct patch_site *site, uint32_t *mark)
{
	struct call_trace *t = ctx;

	if (!call_functions_wants(&t->functions, site, mark))
		return false;
	/* Before it is called: of later calls nobody could say whose they are. */
	if (t->begun && !t->err)
		t->err = plan_function(t, call_functions_marked(*mark));
	if (t->begun && t->files && !t->err)
		t->err = call_records_tell_function(&t->records, call_functions_marked(*mark));
	return true;
}

/* Gives a site its fetches, if values are recorded. */
static struct wc_error *plan_site(struct call_trace *t, uint32_t i)
{
	const struct call_site *s = &t->functions.site[i];
	struct call_function *f = &t->functions.function[s->function];
	union {
		struct call_plan plan;
		uint8_t bytes[CALL_PLAN_MOST];
	} room = { 0 };
	struct wc_error *err;

	if (!t->arguments || !s->counter || f->is_extra)
		return NULL;
	err = plan_function(t, s->function);
	if (!err && call_arguments_fetches(f->plan, s->place, &room.plan) &&
	    !patch_session_plan(t->session, i, &room.plan))
		err = wc_error_new(
			WC_EFAIL,
			"there is no room for what is to be recorded of so many functions; choose fewer");
	return err;
}

static struct wc_error *plan_sites(struct call_trace *t)
{
	scoped(progress_end) struct progress progress;
	struct wc_error *err = NULL;

	progress_begin(&progress, "finding out what functions take");
	for (uint32_t i = 0; i < t->functions.nsites && !err && !(t->options.stop && *t->options.stop); i++) {
		progress_at(&progress, (double)i / (double)t->functions.nsites);
		err = plan_site(t, i);
	}
	return err;
}

static struct wc_error *placed(void *ctx, const struct patch_placed *p)
{
	struct call_trace *t = ctx;

	if (t->err)
		return take_ptr(t->err);
	if (!call_functions_placed(&t->functions, p->site, p->mark, p->counter, p->why, p->why_short) ||
	    t->functions.failed)
		return &wc_enomem;
	return p->counter && t->begun ? plan_site(t, p->site) : NULL;
}

static struct wc_error *call(void *ctx, const struct call_passed *c, uint64_t time_ns, pid_t tid)
{
	struct call_trace *t = ctx;

	if (t->limit && t->records.calls >= t->limit)
		return NULL;
	return call_records_take(&t->records, c, time_ns, tid);
}

static void switch_site(void *ctx, uint32_t site, enum call_off to)
{
	const struct call_trace *t = ctx;

	patch_session_switch(t->session, site, to);
}

static void found_stack(void *ctx, uint32_t tid, uint64_t start, uint64_t end, bool is_main)
{
	const struct call_trace *t = ctx;

	patch_session_stack(t->session, tid, start, end, is_main);
}

static struct wc_error *pumped(void *ctx, bool last, bool *enough)
{
	struct call_trace *t = ctx;

	*enough = t->limit && t->records.calls >= t->limit;
	if (!last)
		return look_each_second(t);
	return call_records_end(&t->records);
}

/* Opening */

static struct wc_error *make_query(struct call_trace *t)
{
	static const char *const text[RULES] = { [RULE_ENTRY] = "entry *", [RULE_EXIT] = "exit *" };
	struct wc_error *err = NULL;

	t->query.pattern = calloc(RULES, sizeof(*t->query.pattern));
	if (!t->query.pattern)
		return &wc_enomem;
	for (size_t i = 0; i < RULES && !err; i++) {
		err = pattern_parse(text[i], &t->query.pattern[i]);
		if (!err)
			t->query.npatterns++;
	}
	t->query.named = t->options.selection.function;
	t->query.nnamed = t->options.selection.nfunctions;
	return err;
}

static struct wc_error *note_registers(struct call_trace *t, const char *why)
{
	struct trace_event e = { .type = EVENT_NOTE };
	char text[400];

	snprintf(text, sizeof(text), "registers are recorded in place of values with types: %s", why);
	e.note.text = text;
	return put(t, &e);
}

static bool add_list(struct text_buf *b, const char *what, const char *const *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		text_buf_printf(b, "%s%s", i ? ", " : what, v[i]);
	return !b->failed;
}

static struct wc_error *report_recording(struct call_trace *t)
{
	const struct call_selection *q = &t->options.selection;
	struct trace_event e = { .type = EVENT_RECORDING };
	struct text_buf filters = { 0 };
	struct wc_error *err;

	text_buf_printf(&filters, "functions of ");
	add_list(&filters, "", q->module, q->nmodules);
	if (!q->nmodules)
		text_buf_printf(&filters, "the program");
	add_list(&filters, "; defined in ", q->source, q->nsources);
	add_list(&filters, "; only ", q->function, q->nfunctions);
	add_list(&filters, "; not ", q->without, q->nwithout);
	if (q->min_size)
		text_buf_printf(&filters, "; of %llu bytes at least", (unsigned long long)q->min_size);
	if (t->arguments)
		text_buf_printf(&filters, "; with parameters and results");
	e.recording = (struct recording_event){
		.stepper = "patch",
		.planner = t->arguments ? t->arguments->types.ops->version() : "watchctl " WATCHCTL_VERSION,
		.range = "all calls",
		.filters = text_buf_text(&filters),
	};
	err = filters.failed ? &wc_enomem : put(t, &e);
	text_buf_deinit(&filters);
	return err;
}

static struct wc_error *report_range(struct call_trace *t, enum range_what what)
{
	struct trace_event e = { .type = EVENT_RANGE };

	e.range = (struct range_event){
		.occurrence = 1, .what = what, .pid = t->records.pid, .tid = t->records.pid
	};
	return put(t, &e);
}

/* Takes @err, of opening the session; NULL: it is open. The choice of source files comes first where that explains it. */
static struct wc_error *check_sources(struct call_trace *t, struct wc_error *err)
{
	if (err && err->kind != WC_ENAME)
		return err;
	if (t->functions.err)
		return wc_error_first(take_ptr(t->functions.err), err);
	if (!t->functions.sources || t->options.pending)
		return err;
	return wc_error_first(code_source_check(t->functions.sources), err);
}

static struct wc_error *check_chosen(const struct call_trace *t)
{
	const char *missing = call_functions_missing_module(&t->functions);
	struct call_trace_counts c;

	call_trace_so_far(t, &c);
	if (t->options.pending)
		return NULL;
	if (missing)
		return wc_error_new(
			WC_ENAME, "process %d has no module %s; --pending waits for one that is loaded later",
			t->records.pid, missing);
	if (c.functions)
		return NULL;
	if (!c.entries_refused)
		return wc_error_new(
			WC_ENAME,
			"no function of %s in process %d is chosen; --in MODULE chooses a library's",
			t->options.selection.nmodules ? "these modules" : "the program itself",
			t->records.pid);
	return wc_error_new(WC_ENOTSUP, "none of the %zu function%s can be traced: %s", c.entries_refused,
			    c.entries_refused == 1 ? "" : "s", c.why);
}

static void free_trace(struct call_trace *t)
{
	wc_error_free(call_files_close(t->files));
	wc_error_free(t->err);
	call_records_deinit(&t->records);
	call_arguments_free(t->arguments);
	call_functions_deinit(&t->functions);
	probe_image_deinit(&t->image);
	patch_query_deinit(&t->query);
	free(t);
}

#define SLOTS_LEAST 64u /* of rings that nobody writes */

/* Of all threads together. */
static uint64_t buffers(uint64_t each)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);

	return each * (uint64_t)(cpus > 0 ? cpus : 1);
}

/* The program stands, or records nothing, until begin(): what tells of the recording comes first. */
static struct wc_error *open_session(struct call_trace *t)
{
	const struct patch_rule rule[RULES] = {
		[RULE_ENTRY] = { CALL_PROBE, PROBE_BEFORE },
		[RULE_EXIT] = { CALL_PROBE, PROBE_BEFORE },
	};
	const struct patch_session_options o = { .taker = &t->taker,
						 .pid = t->options.pid,
						 .argv = t->options.argv,
						 .pending = t->options.pending,
						 .query = &t->query,
						 .rule = t->rule,
						 .image = &t->image,
						 .slots = SLOTS_LEAST,
						 .call_bytes = buffers(t->options.buffer),
						 .call_plans = t->options.args,
						 .frames = 1,
						 .hold = true,
						 .stop = t->options.stop };

	memcpy(t->rule, rule, sizeof(rule));
	return patch_session_open(&o, t->sink, &t->session);
}

static struct wc_error *begin(struct call_trace *t)
{
	struct tracee *held = patch_session_held(t->session);
	struct wc_error *err;

	err = report_recording(t);
	if (!err)
		err = report_range(t, RANGE_BEGIN);
	if (!err && t->options.log)
		err = call_files_open(t->options.log, t->records.pid, &t->files);
	for (uint32_t i = 0; !err && t->files && i < t->functions.n; i++)
		if (t->functions.function[i].at)
			err = call_records_tell_function(&t->records, i);
	t->records.files = t->files;
	t->begun = true;
	if (!err)
		err = patch_session_begin(t->session);
	if (!err && held)
		tracee_release(held);
	t->looked_ns = monotonic_ns();
	return err;
}

/* Nothing runs there yet. */
static struct wc_error *open_arguments(struct call_trace *t)
{
	struct wc_error *err =
		call_arguments_open(t->records.pid, t->options.planner, &t->options.values, &t->arguments);

	if (err && err->kind == WC_ENOTSUP) {
		struct wc_error *noted = note_registers(t, err->text);

		wc_error_free(err);
		err = wc_error_first(
			noted, call_arguments_open(t->records.pid, NULL, &t->options.values, &t->arguments));
	}
	t->records.arguments = t->arguments;
	if (!err)
		call_memory_show(t->session);
	return err ? err : plan_sites(t);
}

struct wc_error *call_trace_open(const struct call_trace_options *o, struct event_sink sink,
				 struct call_trace **ret)
{
	struct call_trace *t = calloc(1, sizeof(*t));
	struct wc_error *err;

	if (!t)
		return &wc_enomem;
	t->options = *o;
	t->sink = sink;
	t->functions.selection = o->selection;
	t->taker = (struct patch_taker){ .wants_module = wants_module,
					 .wants = wants,
					 .placed = placed,
					 .call = call,
					 .order = o->log ? CALL_ORDER_THREADS : CALL_ORDER_TIME,
					 .pumped = pumped,
					 .nothing = "there is no such function",
					 .ctx = t };
	err = call_records_init(&t->records, &t->functions, sink);
	if (!err)
		err = call_probes_image(&t->image);
	t->records.max_rate = o->max_rate;
	t->records.switch_site = switch_site;
	t->records.found_stack = o->args ? found_stack : NULL;
	t->records.switch_ctx = t;
	if (!err)
		err = make_query(t);
	if (!err)
		err = check_sources(t, open_session(t));
	if (!err) {
		t->records.pid = patch_session_pid(t->session);
		err = check_chosen(t);
	}
	if (!err && o->wait)
		patch_session_wait(t->session);
	if (!err && o->args)
		err = open_arguments(t);
	if (!err)
		err = begin(t);
	if (err) {
		wc_error_free(patch_session_close(t->session, NULL));
		free_trace(t);
		return err;
	}
	*ret = t;
	return NULL;
}

struct wc_error *call_trace_run(struct call_trace *t, const struct session_limits *limits,
				enum session_end *ret)
{
	struct session_limits l = *limits;

	t->limit = l.count;
	l.count = 0;
	struct wc_error *err = patch_session_run(t->session, &l, ret);

	t->records.exited = *ret == SESSION_EXITED;
	t->end = *ret;
	return err;
}

pid_t call_trace_pid(const struct call_trace *t)
{
	return t->records.pid;
}

bool call_trace_untraced(const struct call_trace *t, size_t *at, struct call_untraced *ret)
{
	const struct call_functions *f = &t->functions;

	for (; *at < f->nrefused; ++*at) {
		const struct call_refused *r = &f->refused[*at];
		const struct call_function *of = &f->function[r->function];

		if (!call_functions_refusal_counts(f, r))
			continue;
		*ret = (struct call_untraced){ .module = f->file[of->file].m.path,
					       .function = of->name,
					       .module_offset = of->addr,
					       .at_end = r->at_end,
					       .places = r->places,
					       .why = r->why };
		++*at;
		return true;
	}
	return false;
}

void call_trace_so_far(const struct call_trace *t, struct call_trace_counts *ret)
{
	struct call_untraced u;

	*ret = (struct call_trace_counts){ .modules = t->functions.nfiles };
	for (size_t at = 0; call_trace_untraced(t, &at, &u);)
		*(u.at_end ? &ret->exits_refused : &ret->entries_refused) += u.places;
	for (size_t i = 0; i < t->functions.nfiles; i++)
		ret->modules -= !t->functions.file[i].is_selected;
	for (size_t i = 0; i < t->functions.n; i++) {
		ret->functions += t->functions.function[i].at && !t->functions.function[i].is_extra;
		ret->off += t->functions.function[i].is_off;
	}
	snprintf(ret->why, sizeof(ret->why), "%s", t->functions.why);
}

/* Closing */

struct wc_error *call_trace_close(struct call_trace *t, struct call_trace_counts *counts)
{
	struct patch_session_counts s = { 0 };
	struct call_trace_counts c;
	struct wc_error *err;

	if (!t)
		return NULL;
	err = patch_session_close(t->session, &s);
	err = wc_error_first(err, call_files_close(t->files));
	t->files = t->records.files = NULL;
	call_trace_so_far(t, &c);
	c.longest_stop_ns = s.longest_stop_ns;
	c.called = t->records.called;
	c.recorded = t->records.calls;
	c.lost = t->records.lost;
	c.switched_off = t->records.switched_off;
	if (counts)
		*counts = c;
	free_trace(t);
	return err;
}
