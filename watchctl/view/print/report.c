#include "watchctl/view/print/report.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/event/last_capture.h"
#include "watchctl/view/event/step_filter.h"
#include "watchctl/view/event/tag_names.h"
#include "watchctl/view/table/probe_stacks.h"
#include "watchctl/view/table/probe_totals.h"
#include "watchctl/view/table/sites.h"
#include "watchctl/view/table/step_totals.h"

/* Calls the printer's @op, if it has one. */
#define PRINT(r, op, ...)                                            \
	do {                                                         \
		if ((r)->out.ops->op)                                \
			(r)->out.ops->op((r)->out.ctx, __VA_ARGS__); \
	} while (0)

struct report {
	struct annotate *annotate;
	struct view out;
	struct printer *printer;
	struct report_options opt;
	struct sites sites;
	struct view site_counter;
	struct tag_totals tags; /* whichever were chosen */
	struct view tag_counter;
	struct probe_totals probes;
	struct view probe_counter;
	struct probe_stacks probe_stacks;
	struct map64 probe_tags; /* hash of a tag that probes have recorded stacks under -> anything */
	struct stack_trees stacks;
	struct step_totals steps;
	struct view step_counter;
	struct step_filter filter;
	uint64_t first_call; /* that was printed; 0: none was */
	struct last_captures before;
	uint64_t events, lost;
	bool watch_seen;
	char **name; /* of all watches seen */
	size_t nnames, names_cap;
	char *names; /* ... in one text, when asked for */
	/* Summaries come with the last events; they are printed below the table. */
	struct view_summary *summary;
	size_t nsummaries, summary_cap;
};

static bool wanted(const struct report *r, const struct view_watch *w)
{
	const char *name = r->opt.choice.watch;

	if (!name)
		return !r->opt.choice.ntags;
	if (!w)
		return true;
	return !strcmp(name, w->e.name) || (w->e.full_name && !strcmp(name, w->e.full_name));
}

static bool wants_captures(const struct report *r)
{
	return r->opt.choice.ntags || !r->opt.choice.watch;
}

static bool wanted_tag(const struct report *r, const struct view_tag *tag)
{
	const struct report_choice *c = &r->opt.choice;
	size_t i;

	for (i = 0; i < c->ntags; i++)
		if (tag_is(tag, c->tag[i]))
			return true;
	return !c->ntags && !c->watch;
}

static uint64_t tag_hash(const char *tag)
{
	return hash_text(HASH_START, tag);
}

/* A probe is chosen by its name, as a watch is; one that records stacks also by their tag. */
static bool wants_probe(const struct report *r, const struct view_probe_site *s)
{
	return r->opt.choice.watch ? !strcmp(r->opt.choice.watch, s->probe) : !r->opt.choice.ntags;
}

static bool wants_probe_event(const struct report *r, const struct view_probe *p)
{
	const struct report_choice *c = &r->opt.choice;
	size_t i;

	for (i = 0; p->raw->kind == PROBE_KIND_STACK && i < c->ntags; i++)
		if (!strcmp(c->tag[i], p->raw->format))
			return true;
	return wants_probe(r, p->site);
}

static void remember_name(struct report *r, const char *name)
{
	char *copy;
	size_t i;

	for (i = 0; i < r->nnames; i++)
		if (!strcmp(r->name[i], name))
			return;
	copy = strdup(name);
	if (copy && !vec_push(r->name, r->nnames, r->names_cap, copy))
		free(copy);
}

/* "flag, count" */
static const char *list_names(struct report *r)
{
	size_t len = 0, i;

	if (!r->nnames)
		return NULL;
	for (i = 0; i < r->nnames; i++)
		len += strlen(r->name[i]) + 2;
	free(r->names);
	r->names = malloc(len + 1);
	if (!r->names)
		return NULL;
	r->names[0] = '\0';
	for (i = 0, len = 0; i < r->nnames; i++)
		len += sprintf(r->names + len, "%s%s", i ? ", " : "", r->name[i]);
	return r->names;
}

static void on_process(void *ctx, const struct process_event *p, struct view_time time)
{
	struct report *r = ctx;

	PRINT(r, process, p, time);
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct report *r = ctx;

	remember_name(r, w->e.name);
	if (!wanted(r, w))
		return;
	r->watch_seen = true;
	PRINT(r, armed, w, time);
}

static bool is_printed(struct report *r)
{
	return r->events++ >= r->opt.skip && !r->opt.no_events;
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct report *r = ctx;
	struct view_access with;

	if (!wanted(r, a->watch))
		return;
	if (!r->opt.no_tables)
		r->site_counter.ops->access(r->site_counter.ctx, a);
	if (r->opt.stacks)
		stack_trees_add_access(&r->stacks, a);
	if (!is_printed(r))
		return;
	with = *a;
	if (r->opt.before)
		with.before = last_captures_get(&r->before, a);
	PRINT(r, access, &with);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct report *r = ctx;

	r->tag_counter.ops->capture(r->tag_counter.ctx, c);
	/* Without memory the one before it stays, which would be wrong: it is forgotten as well. */
	if (r->opt.before && tag_is(c->tag, r->opt.before))
		last_captures_put(&r->before, c);
	if (!wanted_tag(r, c->tag))
		return;
	if (r->opt.stacks)
		stack_trees_add_capture(&r->stacks, c);
	if (is_printed(r))
		PRINT(r, capture, c);
}

static void on_probe_site(void *ctx, const struct view_probe_site *s, struct view_time time)
{
	struct report *r = ctx;

	remember_name(r, s->probe);
	if (!wants_probe(r, s))
		return;
	r->watch_seen = true;
	r->probe_counter.ops->probe_site(r->probe_counter.ctx, s, time);
	PRINT(r, probe_site, s, time);
}

static void on_probe(void *ctx, const struct view_probe *p)
{
	struct report *r = ctx;

	if (p->raw->kind == PROBE_KIND_STACK)
		map64_put(&r->probe_tags, tag_hash(p->raw->format), r);
	if (!wants_probe_event(r, p))
		return;
	r->probe_counter.ops->probe(r->probe_counter.ctx, p);
	if (r->opt.stacks)
		probe_stacks_add(&r->probe_stacks, &r->stacks, p);
	if (is_printed(r))
		PRINT(r, probe, p);
}

static void on_probe_total(void *ctx, const struct view_probe_site *s, struct view_time time)
{
	struct report *r = ctx;

	if (!wants_probe(r, s))
		return;
	r->probe_counter.ops->probe_total(r->probe_counter.ctx, s, time);
	/* Where there is no table that has it. */
	if (r->opt.no_tables && !r->opt.stacks && !r->opt.is_part)
		PRINT(r, probe_total, s, time);
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct report *r = ctx;

	if (l->watch == WATCH_CAPTURES ? wants_captures(r) : wanted(r, w))
		PRINT(r, lost, w, l, time);
}

static void on_note(void *ctx, const char *text, struct view_time time)
{
	struct report *r = ctx;

	PRINT(r, note, text, time);
}

static void on_missing(void *ctx, const struct missing_event *m, struct view_time time)
{
	struct report *r = ctx;

	PRINT(r, missing, m, time);
}

static bool wants_calls(const struct report *r)
{
	return !r->opt.choice.watch && !r->opt.choice.ntags;
}

/* What sums the probes up is of all of them. */
static bool wants_summary(const struct report *r, const struct view_summary *s)
{
	if (s->watch)
		return wanted(r, s->watch);
	return s->e.watch == WATCH_PROBES ? wants_calls(r) : wants_captures(r);
}

static void on_summary(void *ctx, const struct view_summary *s)
{
	struct report *r = ctx;

	if (!wants_summary(r, s))
		return;
	r->lost += s->e.lost;
	/* Without memory it comes too early, which is better than not at all. */
	if (!vec_push(r->summary, r->nsummaries, r->summary_cap, *s))
		PRINT(r, summary, s);
}

/* Step recordings */

static void on_recording(void *ctx, const struct recording_event *e, struct view_time time)
{
	struct report *r = ctx;

	if (!wants_calls(r))
		return;
	r->step_counter.ops->recording(r->step_counter.ctx, e, time);
	PRINT(r, recording, e, time);
}

static void on_thread(void *ctx, const struct thread_event *t, struct view_time time)
{
	struct report *r = ctx;

	if (wants_calls(r) && step_filter_thread(&r->filter, t->tid, t->comm))
		PRINT(r, thread, t, time);
}

static void on_range(void *ctx, const struct range_event *e, const char *comm, struct view_time time)
{
	struct report *r = ctx;

	if (!wants_calls(r))
		return;
	r->step_counter.ops->range(r->step_counter.ctx, e, comm, time);
	if (r->opt.calls && !r->opt.no_events)
		PRINT(r, range, e, comm, time);
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct report *r = ctx;
	struct view_call with = *c;

	if (!wants_calls(r))
		return;
	if (!step_filter_call(&r->filter, c, &with.depth))
		return;
	r->step_counter.ops->call(r->step_counter.ctx, c);
	if (r->opt.stacks && r->opt.call_counter)
		r->opt.call_counter->ops->call(r->opt.call_counter->ctx, c);
	if (!r->opt.calls || !is_printed(r))
		return;
	if (!r->first_call)
		r->first_call = c->raw->call;
	PRINT(r, call, &with);
}

static void on_return(void *ctx, const struct view_return *e)
{
	struct report *r = ctx;
	struct view_return with = *e;

	if (!wants_calls(r) || !step_filter_return(&r->filter, e, &with.depth))
		return;
	r->step_counter.ops->ret(r->step_counter.ctx, e);
	if (r->opt.stacks && r->opt.call_counter)
		r->opt.call_counter->ops->ret(r->opt.call_counter->ctx, e);
	/* Calls that were left out do not end either. */
	if (r->opt.calls && !r->opt.no_events &&
	    (!r->opt.skip || (r->first_call && e->raw->call >= r->first_call)))
		PRINT(r, ret, &with);
}

static bool reports_moments(const struct report *r)
{
	return r->opt.calls && !r->opt.no_events && (!r->opt.skip || r->first_call);
}

static void on_step(void *ctx, const struct view_step *s)
{
	struct report *r = ctx;
	struct view_step with = *s;

	if (!wants_calls(r) ||
	    !step_filter_moment(&r->filter, s->raw->pid, s->raw->tid, s->comm, &with.depth))
		return;
	r->step_counter.ops->step(r->step_counter.ctx, s);
	if (r->opt.instructions && reports_moments(r))
		PRINT(r, step, &with);
}

static void on_signal(void *ctx, const struct view_signal *s)
{
	struct report *r = ctx;
	struct view_signal with = *s;

	if (!wants_calls(r) ||
	    !step_filter_moment(&r->filter, s->raw->pid, s->raw->tid, s->comm, &with.depth))
		return;
	r->step_counter.ops->signal(r->step_counter.ctx, s);
	if (reports_moments(r))
		PRINT(r, signal, &with);
}

static void on_input(void *ctx, const struct view_input *i)
{
	struct report *r = ctx;
	struct view_input with = *i;

	if (wants_calls(r) && reports_moments(r) &&
	    step_filter_moment(&r->filter, i->raw->pid, i->raw->tid, i->comm, &with.depth))
		PRINT(r, input, &with);
}

/* Reported in any case: of a program that hangs, it is the answer. */
static void on_blocked(void *ctx, const struct view_blocked *s)
{
	struct report *r = ctx;

	if (wants_calls(r) && step_filter_thread(&r->filter, s->raw->tid, s->comm))
		PRINT(r, blocked, s);
}

static void print_tags(struct report *r)
{
	struct tag_totals chosen = { .incomplete = r->tags.incomplete };
	size_t i;

	for (i = 0; i < r->tags.n; i++)
		if (wanted_tag(r, r->tags.v[i]->tag) &&
		    !vec_push(chosen.v, chosen.n, chosen.cap, r->tags.v[i]))
			chosen.incomplete = true;
	printer_tags(r->printer, &chosen);
	free(chosen.v);
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
		print_tags(r);
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

const struct tag_totals *report_tags(const struct report *r)
{
	return &r->tags;
}

bool report_tag_is_known(const struct report *r, const char *tag)
{
	size_t i;

	for (i = 0; i < r->tags.n; i++)
		if (tag_is(r->tags.v[i]->tag, tag))
			return true;
	return map64_get(&r->probe_tags, tag_hash(tag)) != NULL;
}

bool report_watch_is_known(struct report *r, const char **names)
{
	*names = list_names(r);
	return !r->opt.choice.watch || r->watch_seen;
}

struct view report_view(struct report *r)
{
	static const struct view_ops ops = {
		.process = on_process,
		.armed = on_armed,
		.access = on_access,
		.capture = on_capture,
		.probe_site = on_probe_site,
		.probe = on_probe,
		.probe_total = on_probe_total,
		.lost = on_lost,
		.note = on_note,
		.missing = on_missing,
		.summary = on_summary,
		.recording = on_recording,
		.thread = on_thread,
		.range = on_range,
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
	r->filter = (struct step_filter){ .function = options->function,
					  .thread = options->thread,
					  .depth = options->depth };
	r->stacks.merge = options->merge;
	r->stacks.inverted = options->inverted;
	if (!options->is_fed)
		annotate_add_view(a, report_view(r));
	return r;
}

void report_free(struct report *r)
{
	size_t i;

	if (!r)
		return;
	sites_deinit(&r->sites);
	tag_totals_deinit(&r->tags);
	stack_trees_deinit(&r->stacks);
	probe_totals_deinit(&r->probes);
	probe_stacks_deinit(&r->probe_stacks);
	map64_deinit(&r->probe_tags);
	last_captures_deinit(&r->before);
	step_totals_deinit(&r->steps);
	step_filter_deinit(&r->filter);
	free(r->summary);
	for (i = 0; i < r->nnames; i++)
		free(r->name[i]);
	free(r->name);
	free(r->names);
	free(r);
}

void report_freep(struct report **r)
{
	report_free(*r);
}
