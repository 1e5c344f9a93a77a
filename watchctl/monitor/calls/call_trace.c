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
#include "watchctl/step/model/range.h"
#include "watchctl/step/model/step_recording.h"
#include "watchctl/step/model/step_start.h"
#include "watchctl/step/model/told_regions.h"
#include "watchctl/target/stop/tracee.h"
#include "watchctl/trace/event.h"

#define LOOK_NS 1000000000u

/* By the index of patterns: where several fit at one place, the first one counts. */
enum { RULE_ENTRY, RULE_EXIT, RULE_STUB, RULE_LANDING, RULE_FROM, RULE_TO, RULES };

#define REGIONS_SOON 50u /* looks at the mappings, of a program that has just begun */
#define REGIONS_SOON_NS 2000000u
#define REGIONS_NS 200000000u

struct call_trace {
	struct call_trace_options options;
	struct event_sink sink;
	struct call_functions functions;
	struct call_records records;
	struct call_files *files;	  /* NULL: calls are events */
	struct call_arguments *arguments; /* NULL: no values are recorded */
	struct call_choice *choice;	  /* of options.step; NULL: none */
	struct call_range range;
	struct told_regions regions;
	uint64_t regions_ns; /* of the last look at them */
	unsigned int regions_looks;
	bool begun;	      /* functions that are wanted from now on are told at once */
	struct wc_error *err; /* of telling them */
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

/* ... of a step recording: what the pointers that were recorded point into. */
static struct wc_error *look_at_regions(struct call_trace *t)
{
	const uint64_t now = monotonic_ns();

	if (!t->choice ||
	    now - t->regions_ns < (t->regions_looks < REGIONS_SOON ? REGIONS_SOON_NS : REGIONS_NS))
		return NULL;
	t->regions_ns = now;
	t->regions_looks++;
	return told_regions_tell(&t->regions, t->records.pid, now, t->sink);
}

/* What the session asks */

/* The process is there: what is to be recorded of it is the planner's word. */
static struct wc_error *opened(void *ctx, pid_t pid)
{
	struct call_trace *t = ctx;
	const struct call_step_options *step = t->options.step;
	struct wc_error *err;

	t->records.pid = pid;
	err = call_arguments_open(pid, t->options.planner, &t->options.values, &t->arguments);
	if (err)
		return err;
	t->arguments->told_modules = true;
	t->choice = call_choice_new(pid, step->selection, step->from, step->to, t->arguments->types.ops,
				    t->arguments->types.planner);
	t->functions.choice = t->choice;
	return t->choice ? NULL : &wc_enomem;
}

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
	bool is_function;

	if (t->choice) {
		t->query.pattern[RULE_FROM].number = call_choice_from(t->choice, &is_function);
		t->query.pattern[RULE_TO].number = call_choice_to(t->choice);
	}
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
		t->err = plan_function(t, call_functions_marked(&t->functions, *mark));
	if (t->begun && t->files && !t->err)
		t->err = call_records_tell_function(&t->records, call_functions_marked(&t->functions, *mark));
	return true;
}

static struct wc_error *plan_callee(struct call_trace *t, const struct call_site *s)
{
	const struct call_point *p = s->callee ? call_choice_point(t->choice, s->callee) : NULL;

	return p && p->function != CALL_POINT_NEW ? plan_function(t, p->function) : NULL;
}

/* Gives a site its fetches, if values are recorded. */
static struct wc_error *plan_site(struct call_trace *t, uint32_t i)
{
	struct call_site *s = &t->functions.site[i];
	union {
		struct call_plan plan;
		uint8_t bytes[CALL_PLAN_MOST];
	} room = { 0 };
	struct wc_error *err;

	if (!t->arguments || !s->counter || t->functions.function[s->function].is_extra)
		return NULL;
	err = plan_function(t, s->function);
	if (!err && s->place == CALL_LANDING)
		err = plan_callee(t, s);
	if (!err)
		err = call_arguments_at(t->arguments, &t->functions, s);
	if (!err && s->plan && call_arguments_fetches(s->plan, s->values, &room.plan) &&
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
	if (!call_functions_placed(&t->functions, p->site, p->ip, p->mark, p->counter, p->why,
				   p->why_short) ||
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

	struct wc_error *err = look_at_regions(t);

	*enough = (t->limit && t->records.calls >= t->limit) ||
		  (t->choice && t->range.range.state == RANGE_DONE);
	if (!err)
		err = last ? call_records_end(&t->records) : look_each_second(t);
	return err;
}

/* Opening */

static struct wc_error *make_query(struct call_trace *t)
{
	static const char *const text[] = { [RULE_ENTRY] = "entry *", [RULE_EXIT] = "exit *" };
	static const enum pattern_kind kind[RULES] = { [RULE_STUB] = PATTERN_STUB,
						       [RULE_LANDING] = PATTERN_LANDING,
						       [RULE_FROM] = PATTERN_ADDRESS,
						       [RULE_TO] = PATTERN_ADDRESS };
	const size_t n = t->options.step ? RULES : RULE_EXIT + 1;
	struct wc_error *err = NULL;

	t->query.pattern = calloc(RULES, sizeof(*t->query.pattern));
	if (!t->query.pattern)
		return &wc_enomem;
	for (size_t i = 0; i < n && !err; i++) {
		err = i <= RULE_EXIT ? pattern_parse(text[i], &t->query.pattern[i])
				     : pattern_of_kind(kind[i], &t->query.pattern[i]);
		if (!err)
			t->query.npatterns++;
	}
	t->query.pattern[RULE_ENTRY].parts = t->query.pattern[RULE_EXIT].parts = t->options.step;
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
		.range = RECORDING_ALL_CALLS,
		.filters = text_buf_text(&filters),
	};
	err = filters.failed ? &wc_enomem : put(t, &e);
	text_buf_deinit(&filters);
	return err;
}

/* ... of `watchctl step`, with what the program was started with. */
static struct wc_error *report_step(struct call_trace *t)
{
	const struct call_step_options *step = t->options.step;
	const struct step_recording r = {
		.stepper = "patch",
		.planner = t->arguments->types.ops->version(),
		.selection = step->selection,
		.from = step->from,
		.to = step->to,
		.depth = step->depth,
		.threads = step->one_thread ? STEPPER_THREADS_ONE : STEPPER_THREADS_ALL,
		.plans = &t->options.values,
		.inputs = step->no_start ? INPUTS_NONE : INPUTS_START,
	};
	struct wc_error *err = step_recording_put(&r, monotonic_ns(), t->sink);

	if (!err && !step->no_start)
		err = step_start_report(t->records.pid, monotonic_ns(), t->sink);
	return err ? err : told_regions_tell(&t->regions, t->records.pid, monotonic_ns(), t->sink);
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
	if (t->options.pending || (t->choice && !c.entries_refused))
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
	call_choice_free(t->choice);
	call_arguments_free(t->arguments);
	call_functions_deinit(&t->functions);
	told_regions_deinit(&t->regions);
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
	const struct patch_session_options o = { .taker = &t->taker,
						 .pid = t->options.pid,
						 .argv = t->options.argv,
						 .addresses = t->options.addresses,
						 .pending = t->options.pending || t->options.step,
						 .query = &t->query,
						 .rule = t->rule,
						 .image = &t->image,
						 .slots = SLOTS_LEAST,
						 .call_bytes = buffers(t->options.buffer),
						 .call_plans = t->options.args,
						 .frames = 1,
						 .hold = true,
						 .stop = t->options.stop };

	for (size_t i = 0; i < RULES; i++)
		t->rule[i] = (struct patch_rule){ CALL_PROBE, PROBE_BEFORE };
	return patch_session_open(&o, t->sink, &t->session);
}

static struct wc_error *begin(struct call_trace *t)
{
	struct tracee *held = patch_session_held(t->session);
	struct wc_error *err;

	err = t->choice ? report_step(t) : report_recording(t);
	if (!err)
		err = call_records_begin_range(&t->records);
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
	struct wc_error *err = t->arguments ? NULL
					    : call_arguments_open(t->records.pid, t->options.planner,
								  &t->options.values, &t->arguments);

	if (err && err->kind == WC_ENOTSUP) {
		struct wc_error *noted = note_registers(t, err->text);

		wc_error_free(err);
		err = wc_error_first(
			noted, call_arguments_open(t->records.pid, NULL, &t->options.values, &t->arguments));
	}
	if (err)
		return err;
	call_records_set_arguments(&t->records, t->arguments);
	call_memory_show(t->session);
	return plan_sites(t);
}

static void begin_choosing(struct call_trace *t)
{
	const struct call_step_options *step = t->options.step;
	const struct range_options range = { .has_from = step->from,
					     .has_to = step->to,
					     .occurrence = step->occurrence,
					     .count = step->count };

	t->taker.opened = opened;
	t->taker.order = CALL_ORDER_TIME; /* threads begin and end the range for each other */
	range_init(&t->range.range, &range);
	t->range.one = step->one_thread;
	t->range.depth = step->depth;
	t->range.events = step->events;
	t->records.range = &t->range;
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
	if (o->step)
		begin_choosing(t);
	t->records.max_rate = o->step ? 0 : o->max_rate;
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
		t->range.range.options.from_is_function =
			o->step && t->functions.begins_at_entry && !o->step->to;
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

	if (!err && *ret == SESSION_COUNT && t->choice && t->range.range.state == RANGE_DONE)
		*ret = SESSION_DONE;
	t->records.exited = *ret == SESSION_EXITED;
	t->records.execed = *ret == SESSION_EXECED;
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

static void count_step(const struct call_trace *t, struct call_trace_counts *ret)
{
	size_t n;
	const struct call_point *p = call_choice_points(t->choice, &n);

	for (size_t i = 0; i < n; i++)
		ret->unknown += !p[i].met &&
				p[i].name; /* others are parts that were split off, which nothing calls */
	ret->results_refused = t->functions.landings_refused;
	ret->from_seen = t->range.range.from_seen;
	ret->to_seen = t->range.range.to_seen;
	ret->occurrences = t->range.range.occurrence;
	ret->recorded_occurrences = t->range.recorded;
	ret->untyped = t->records.untyped;
	ret->untyped_functions = t->records.untyped_functions;
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
		const struct call_function *f = &t->functions.function[i];

		ret->functions += f->at && !f->is_extra && !f->is_over;
		ret->over += f->at && f->is_over;
		ret->off += f->is_off;
	}
	if (t->choice)
		count_step(t, ret);
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
