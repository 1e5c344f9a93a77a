#include "watchctl/view/print/report.h"

#include <stdlib.h>

#include "watchctl/base/vec.h"
#include "watchctl/view/table/probe_stacks.h"
#include "watchctl/view/table/probe_totals.h"
#include "watchctl/view/table/sites.h"
#include "watchctl/view/table/step_totals.h"

#define PRINT(r, op, ...) VIEW_REPORT(&(r)->out, op, __VA_ARGS__)

struct report {
	struct annotate *annotate;
	struct view out;
	struct printer *printer;
	struct report_options opt;
	struct sites sites;
	struct view site_counter;
	struct tag_totals tags;
	struct view tag_counter;
	struct probe_totals probes;
	struct view probe_counter;
	struct probe_stacks probe_stacks;
	struct stack_trees stacks;
	struct step_totals steps;
	struct view step_counter;
	uint64_t first_call; /* that was printed; 0: none was */
	uint64_t events, lost;
	/* Summaries come with the last events; they are printed below the table. */
	struct view_summary *summary;
	size_t nsummaries, summary_cap;
};

static bool is_printed(struct report *r)
{
	return r->events++ >= r->opt.skip && !r->opt.no_events;
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct report *r = ctx;

	PRINT(r, armed, w, time);
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct report *r = ctx;

	if (!r->opt.no_tables)
		r->site_counter.ops->access(r->site_counter.ctx, a);
	if (r->opt.stacks)
		stack_trees_add_access(&r->stacks, a);
	if (is_printed(r))
		PRINT(r, access, a);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct report *r = ctx;

	r->tag_counter.ops->capture(r->tag_counter.ctx, c);
	if (r->opt.stacks)
		stack_trees_add_capture(&r->stacks, c);
	if (is_printed(r))
		PRINT(r, capture, c);
}

static void on_probe_site(void *ctx, const struct view_probe_site *s, struct view_time time)
{
	struct report *r = ctx;

	r->probe_counter.ops->probe_site(r->probe_counter.ctx, s, time);
	PRINT(r, probe_site, s, time);
}

static void on_probe(void *ctx, const struct view_probe *p)
{
	struct report *r = ctx;

	r->probe_counter.ops->probe(r->probe_counter.ctx, p);
	if (r->opt.stacks)
		probe_stacks_add(&r->probe_stacks, &r->stacks, p);
	if (is_printed(r))
		PRINT(r, probe, p);
}

static void on_probe_total(void *ctx, const struct view_probe_site *s, struct view_time time)
{
	struct report *r = ctx;

	r->probe_counter.ops->probe_total(r->probe_counter.ctx, s, time);
	/* Where there is no table that has it. */
	if (r->opt.no_tables && !r->opt.stacks && !r->opt.is_part)
		PRINT(r, probe_total, s, time);
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct report *r = ctx;

	PRINT(r, lost, w, l, time);
}

static void on_summary(void *ctx, const struct view_summary *s)
{
	struct report *r = ctx;

	r->lost += s->e.lost;
	/* Without memory it comes too early, which is better than not at all. */
	if (!vec_push(r->summary, r->nsummaries, r->summary_cap, *s))
		PRINT(r, summary, s);
}

/* Everything else; ranges are of the calls. */
static void on_event(void *ctx, const struct view_event *e)
{
	struct report *r = ctx;
	bool is_range = e->raw->type == EVENT_RANGE;

	view_put(&r->step_counter, e);
	if (is_range ? r->opt.calls && !r->opt.no_events
		     : !event_is(e->raw->type, EVENT_HAPPENS) || !r->opt.no_events)
		view_put(&r->out, e);
}

/* Step recordings */

static void on_call(void *ctx, const struct view_call *c)
{
	struct report *r = ctx;

	r->step_counter.ops->call(r->step_counter.ctx, c);
	if (r->opt.stacks && r->opt.call_counter)
		r->opt.call_counter->ops->call(r->opt.call_counter->ctx, c);
	if (!r->opt.calls || !is_printed(r))
		return;
	if (!r->first_call)
		r->first_call = c->raw->call;
	PRINT(r, call, c);
}

static void on_return(void *ctx, const struct view_return *e)
{
	struct report *r = ctx;

	r->step_counter.ops->ret(r->step_counter.ctx, e);
	if (r->opt.stacks && r->opt.call_counter)
		r->opt.call_counter->ops->ret(r->opt.call_counter->ctx, e);
	/* Calls that were left out do not end either. */
	if (r->opt.calls && !r->opt.no_events &&
	    (!r->opt.skip || (r->first_call && e->raw->call >= r->first_call)))
		PRINT(r, ret, e);
}

static bool reports_moments(const struct report *r)
{
	return r->opt.calls && !r->opt.no_events && (!r->opt.skip || r->first_call);
}

static void on_step(void *ctx, const struct view_step *s)
{
	struct report *r = ctx;

	r->step_counter.ops->step(r->step_counter.ctx, s);
	if (r->opt.instructions && reports_moments(r))
		PRINT(r, step, s);
}

static void on_signal(void *ctx, const struct view_signal *s)
{
	struct report *r = ctx;

	r->step_counter.ops->signal(r->step_counter.ctx, s);
	if (reports_moments(r))
		PRINT(r, signal, s);
}

static void on_input(void *ctx, const struct view_input *i)
{
	struct report *r = ctx;

	if (reports_moments(r))
		PRINT(r, input, i);
}

/* Reported in any case: of a program that hangs, it is the answer. */
static void on_blocked(void *ctx, const struct view_blocked *s)
{
	struct report *r = ctx;

	PRINT(r, blocked, s);
}

static void print_stacks(struct report *r)
{
	size_t i;

	for (i = 0; i < r->stacks.n; i++)
		if (r->stacks.v[i]->tag)
			r->stacks.v[i]->row = map64_get(&r->tags.by_tag, r->stacks.v[i]->tag->id);
	stack_trees_sort(&r->stacks);
	printer_stacks(r->printer, &r->stacks);
	if (!r->opt.call_stacks)
		return;
	stack_trees_sort(r->opt.call_stacks);
	printer_stacks(r->printer, r->opt.call_stacks);
}

void report_finish(struct report *r)
{
	size_t i;

	annotate_finish(r->annotate);
	tag_totals_sort(&r->tags);
	step_totals_sort(&r->steps);
	printer_flush(r->printer);
	if (!r->opt.no_tables) {
		printer_steps(r->printer, &r->steps);
		sites_sort(&r->sites);
		printer_sites(r->printer, &r->sites);
		probe_totals_sort(&r->probes);
		printer_probes(r->printer, &r->probes);
		printer_tags(r->printer, &r->tags);
	}
	if (r->opt.stacks)
		print_stacks(r);
	for (i = 0; i < r->nsummaries; i++)
		PRINT(r, summary, &r->summary[i]);
	r->nsummaries = 0;
}

uint64_t report_events(const struct report *r)
{
	return r->events;
}

uint64_t report_lost(const struct report *r)
{
	return r->lost;
}

struct view report_view(struct report *r)
{
	static const struct view_subscription events[] = {
		{ VIEW_ANY, on_event },
		{ 0 },
	};
	static const struct view_ops ops = {
		.events = events,
		.armed = on_armed,
		.access = on_access,
		.capture = on_capture,
		.probe_site = on_probe_site,
		.probe = on_probe,
		.probe_total = on_probe_total,
		.lost = on_lost,
		.summary = on_summary,
		.call = on_call,
		.ret = on_return,
		.step = on_step,
		.signal = on_signal,
		.blocked = on_blocked,
		.input = on_input,
	};

	return (struct view){ .ops = &ops, .ctx = r };
}

struct report *report_new(struct annotate *a, struct printer *p, const struct report_options *options)
{
	struct report *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->annotate = a;
	r->printer = p;
	r->out = printer_view(p);
	r->opt = *options;
	r->site_counter = sites_view(&r->sites);
	r->tag_counter = tag_totals_view(&r->tags);
	r->step_counter = step_totals_view(&r->steps);
	r->probe_counter = probe_totals_view(&r->probes);
	r->probes.is_part = options->is_part;
	r->stacks.merge = options->merge;
	r->stacks.inverted = options->inverted;
	return r;
}

void report_free(struct report *r)
{
	if (!r)
		return;
	sites_deinit(&r->sites);
	tag_totals_deinit(&r->tags);
	stack_trees_deinit(&r->stacks);
	probe_totals_deinit(&r->probes);
	probe_stacks_deinit(&r->probe_stacks);
	step_totals_deinit(&r->steps);
	free(r->summary);
	free(r);
}

void report_freep(struct report **r)
{
	report_free(*r);
}
