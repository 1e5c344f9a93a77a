#include "watchctl/view/event/event_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/words/similar.h"
#include "watchctl/trace/rows/event_fields.h"
#include "watchctl/view/event/last_capture.h"
#include "watchctl/view/event/tag_names.h"

#define NAMES_KEPT 20 /* for an error message */

struct names {
	char *v[NAMES_KEPT];
	size_t n;
	bool more;
};

/* A tag that was chosen, or is looked for before accesses. */
struct chosen_tag {
	const char *name;
	bool seen;
	struct similar similar; /* those there are */
};

struct event_chooser {
	const struct event_choice *c;
	struct view to;
	struct step_filter calls;
	bool resolved, thread_seen, watch_seen, calls_seen, sites_seen, captures_seen;
	struct chosen_tag *tag; /* those of the choice; behind them the one before accesses, if any */
	size_t ntags;
	struct last_captures before;
	uint64_t from_ns, until_ns;	/* of CLOCK_MONOTONIC; until is the first one left out */
	uint64_t first_call, last_call; /* passed on; 0: none */
	struct names watches, tags;
	uint64_t naccesses, ncaptures, ncalls, nprobes, lost;
	struct wc_error *err;
};

#define PASS(s, op, ...) VIEW_REPORT(&(s)->to, op, __VA_ARGS__)

/* Names, for messages */

static void names_add(struct names *names, const char *name)
{
	size_t i;

	for (i = 0; i < names->n; i++)
		if (!strcmp(names->v[i], name))
			return;
	if (names->n == NAMES_KEPT)
		names->more = true;
	else if ((names->v[names->n] = strdup(name)))
		names->n++;
}

/* "flag, count and more"; "none" */
static void names_text(const struct names *names, char *buf, size_t cap)
{
	size_t i, used = 0;

	snprintf(buf, cap, "none");
	for (i = 0; i < names->n && used < cap; i++)
		used += (size_t)snprintf(buf + used, cap - used, "%s%s", i ? ", " : "", names->v[i]);
	if (names->more && used < cap)
		snprintf(buf + used, cap - used, " and more");
}

static void names_deinit(struct names *names)
{
	while (names->n)
		free(names->v[--names->n]);
}

/* Choices */

static bool wants_watch(const struct event_chooser *s, const struct view_watch *w)
{
	if (!s->c->watch)
		return !s->c->ntags;
	return !w || !strcmp(s->c->watch, w->e.name) ||
	       (w->e.full_name && !strcmp(s->c->watch, w->e.full_name));
}

static bool wants_captures(const struct event_chooser *s)
{
	return s->c->ntags || !s->c->watch;
}

static bool wants_calls(const struct event_chooser *s)
{
	return !s->c->watch && !s->c->ntags;
}

static bool wants_tag(struct event_chooser *s, const struct view_tag *tag)
{
	bool wanted = !s->c->ntags && !s->c->watch;
	size_t i;

	for (i = 0; i < s->c->ntags; i++)
		if (tag_is(tag, s->c->tag[i]))
			wanted = true;
	return wanted;
}

/* A tag's first capture. */
static void learn_tag(struct event_chooser *s, const struct view_tag *tag)
{
	size_t i;

	names_add(&s->tags, tag->text);
	for (i = 0; i < s->ntags; i++) {
		s->tag[i].seen |= tag_is(tag, s->tag[i].name);
		if (tag->name)
			similar_offer(&s->tag[i].similar, tag->name);
	}
}

static bool wants_thread(struct event_chooser *s, int32_t tid, const char *comm)
{
	bool wanted = step_filter_thread(&s->calls, tid, comm);

	s->thread_seen |= wanted;
	return wanted;
}

static bool wants_time(const struct event_chooser *s, struct view_time t)
{
	return t.mono_ns >= s->from_ns && t.mono_ns < s->until_ns;
}

/* The first event that has a time: bounds may be relative to it. */
static void event_chooser_begin(struct event_chooser *s, struct view_time t)
{
	if (s->resolved)
		return;
	s->resolved = true;
	if (s->c->from.kind != TIME_NONE)
		s->err = time_bound_resolve(&s->c->from, t, &s->from_ns);
	if (!s->err && s->c->until.kind != TIME_NONE)
		s->err = time_bound_resolve(&s->c->until, t, &s->until_ns);
}

/* Events */

static bool wants_event(struct event_chooser *s, const struct view_event *e)
{
	int32_t pid, tid;

	switch (e->raw->type) {
	case EVENT_PROCESS:
	case EVENT_MISSING:
		return true;
	case EVENT_NOTE: /* one without a time is of the log as a whole */
		return !e->time.mono_ns || wants_time(s, e->time);
	case EVENT_RANGE: /* whoever entered it */
		return wants_calls(s) && wants_time(s, e->time);
	default:
		return wants_calls(s) &&
		       (!event_thread(e->raw, &pid, &tid) || wants_thread(s, tid, e->comm)) &&
		       (!event_is(e->raw->type, EVENT_HAPPENS) || wants_time(s, e->time));
	}
}

static void on_event(void *ctx, const struct view_event *e)
{
	struct event_chooser *s = ctx;

	if (e->raw->type != EVENT_MISSING && (e->raw->type != EVENT_NOTE || e->time.mono_ns))
		event_chooser_begin(s, e->time);
	if (wants_event(s, e))
		view_put(&s->to, e);
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct event_chooser *s = ctx;

	event_chooser_begin(s, time);
	names_add(&s->watches, w->e.name);
	if (!wants_watch(s, w))
		return;
	s->watch_seen = true;
	PASS(s, armed, w, time);
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct event_chooser *s = ctx;
	struct view_access with;

	event_chooser_begin(s, a->time);
	if (!wants_watch(s, a->watch))
		return;
	s->watch_seen = true;
	if (!wants_thread(s, a->raw->tid, a->comm) || !wants_time(s, a->time))
		return;
	s->naccesses++;
	with = *a;
	if (s->c->before)
		with.before = last_captures_get(&s->before, a);
	PASS(s, access, &with);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct event_chooser *s = ctx;

	event_chooser_begin(s, c->time);
	s->captures_seen = true;
	if (c->tag->captures <= 1)
		learn_tag(s, c->tag);
	/* Without memory the one before it stays, which would be wrong: it is forgotten as well. */
	if (s->c->before && tag_is(c->tag, s->c->before))
		last_captures_put(&s->before, c);
	if (!wants_tag(s, c->tag) || !wants_thread(s, c->raw->tid, c->comm) || !wants_time(s, c->time))
		return;
	s->ncaptures++;
	PASS(s, capture, c);
}

/* A probe is chosen by its name, as a watch is; one that records stacks also by their tag. */
static bool wants_probe_name(struct event_chooser *s, const struct view_probe_site *site)
{
	if (!s->c->watch)
		return !s->c->ntags;
	if (strcmp(s->c->watch, site->probe) != 0)
		return false;
	return s->watch_seen = true;
}

static bool wants_probe_tag(struct event_chooser *s, const struct probe_event *e)
{
	bool wanted = false;
	size_t i;

	for (i = 0; e->kind == PROBE_KIND_STACK && i < s->ntags; i++) {
		if (strcmp(s->tag[i].name, e->format) != 0)
			continue;
		s->tag[i].seen = true;
		wanted |= i < s->c->ntags;
	}
	return wanted;
}

/* Of a chosen function: the one that it is in, or was inlined into. */
static bool wants_probe_function(struct event_chooser *s, const struct view_probe_site *site)
{
	const char *pattern = s->c->function, *name[] = { site->source.function, site->frame.function };
	size_t i;

	for (i = 0; pattern && i < 2; i++)
		if (name[i] && step_filter_names(pattern, name[i]))
			return s->calls.function_seen = true;
	return !pattern;
}

static void on_probe_site(void *ctx, const struct view_probe_site *site, struct view_time time)
{
	struct event_chooser *s = ctx;

	event_chooser_begin(s, time);
	names_add(&s->watches, site->probe);
	s->sites_seen = true;
	if (wants_probe_name(s, site) && wants_probe_function(s, site))
		PASS(s, probe_site, site, time);
}

static void on_probe(void *ctx, const struct view_probe *p)
{
	struct event_chooser *s = ctx;
	const bool tagged = wants_probe_tag(s, p->raw);

	event_chooser_begin(s, p->time);
	if (!(wants_probe_name(s, p->site) || tagged) || !wants_probe_function(s, p->site) ||
	    !wants_thread(s, p->raw->tid, p->comm) || !wants_time(s, p->time))
		return;
	s->nprobes++;
	PASS(s, probe, p);
}

static void on_probe_total(void *ctx, const struct view_probe_site *site, struct view_time time)
{
	struct event_chooser *s = ctx;

	if (wants_probe_name(s, site) && wants_probe_function(s, site))
		PASS(s, probe_total, site, time);
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct event_chooser *s = ctx;
	bool wanted = l->watch == WATCH_CAPTURES ? wants_captures(s)
		      : l->watch == WATCH_CALLS	 ? wants_calls(s)
		      : l->watch == WATCH_PROBES ? wants_calls(s)
						 : wants_watch(s, w);

	event_chooser_begin(s, time);
	/* Of calls no summary shows. */
	if (wanted && l->watch == WATCH_CALLS)
		s->lost += l->count;
	if (wanted && wants_time(s, time))
		PASS(s, lost, w, l, time);
}

static bool wants_summary(const struct event_chooser *s, const struct view_summary *sum)
{
	if (sum->watch)
		return wants_watch(s, sum->watch);
	return sum->e.watch == WATCH_PROBES ? wants_calls(s) : wants_captures(s);
}

static void on_summary(void *ctx, const struct view_summary *sum)
{
	struct event_chooser *s = ctx;

	if (!wants_summary(s, sum))
		return;
	s->lost += sum->e.lost;
	PASS(s, summary, sum);
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct event_chooser *s = ctx;
	struct view_call with = *c;

	event_chooser_begin(s, c->time);
	s->calls_seen = true;
	if (!wants_calls(s) || !step_filter_call(&s->calls, c, &with.depth))
		return;
	s->thread_seen = true;
	if (!wants_time(s, c->time))
		return;
	if (!s->first_call)
		s->first_call = c->raw->call;
	s->last_call = c->raw->call;
	s->ncalls++;
	PASS(s, call, &with);
}

/* The end of a call that was passed on, whenever it comes. */
static void on_return(void *ctx, const struct view_return *r)
{
	struct event_chooser *s = ctx;
	struct view_return with = *r;

	if (!wants_calls(s) || !step_filter_return(&s->calls, r, &with.depth))
		return;
	if (s->first_call && r->raw->call >= s->first_call && r->raw->call <= s->last_call)
		PASS(s, ret, &with);
}

static bool wants_moment(struct event_chooser *s, int32_t pid, int32_t tid, const char *comm,
			 struct view_time time, uint32_t *depth)
{
	event_chooser_begin(s, time);
	return wants_calls(s) && step_filter_moment(&s->calls, pid, tid, comm, depth) && wants_time(s, time);
}

static void on_step(void *ctx, const struct view_step *e)
{
	struct event_chooser *s = ctx;
	struct view_step with = *e;

	if (wants_moment(s, e->raw->pid, e->raw->tid, e->comm, e->time, &with.depth))
		PASS(s, step, &with);
}

static void on_signal(void *ctx, const struct view_signal *e)
{
	struct event_chooser *s = ctx;
	struct view_signal with = *e;

	if (wants_moment(s, e->raw->pid, e->raw->tid, e->comm, e->time, &with.depth))
		PASS(s, signal, &with);
}

static void on_input(void *ctx, const struct view_input *e)
{
	struct event_chooser *s = ctx;
	struct view_input with = *e;

	if (wants_moment(s, e->raw->pid, e->raw->tid, e->comm, e->time, &with.depth))
		PASS(s, input, &with);
}

/* Of a program that hangs, it is the answer. */
static void on_blocked(void *ctx, const struct view_blocked *e)
{
	struct event_chooser *s = ctx;

	event_chooser_begin(s, e->time);
	if (wants_calls(s) && wants_thread(s, e->raw->tid, e->comm))
		PASS(s, blocked, e);
}

/* Afterwards */

bool event_choice_is_part(const struct event_choice *c)
{
	return c->thread || c->function || c->from.kind != TIME_NONE || c->until.kind != TIME_NONE;
}

struct wc_error *event_chooser_take_error(struct event_chooser *s)
{
	struct wc_error *err = s->err;

	s->err = NULL;
	return err;
}

static struct wc_error *unknown_watch(const struct event_chooser *s, const char *log)
{
	char list[2048];

	names_text(&s->watches, list, sizeof(list));
	return wc_error_new(WC_ENAME, "the log %s has no watch \"%s\"; %s%s", log, s->c->watch,
			    s->watches.n ? "its watches are: " : "it has ", list);
}

static struct wc_error *unknown_tag(const struct event_chooser *s, const struct chosen_tag *tag,
				    const char *log)
{
	char list[2048];

	if (!s->captures_seen)
		return wc_error_new(WC_ENAME, "the log %s has no tag \"%s\"; it has no captures at all", log,
				    tag->name);
	if (similar_list(&tag->similar, list, sizeof(list)))
		return wc_error_new(WC_ENAME, "the log %s has no tag \"%s\"; did you mean %s?", log,
				    tag->name, list);
	names_text(&s->tags, list, sizeof(list));
	return wc_error_new(WC_ENAME, "the log %s has no tag \"%s\"; its tags are: %s", log, tag->name, list);
}

struct wc_error *event_chooser_check(const struct event_chooser *s, const char *log)
{
	size_t i;

	if (s->c->watch && !s->watch_seen)
		return unknown_watch(s, log);
	for (i = 0; i < s->ntags; i++)
		if (!s->tag[i].seen)
			return unknown_tag(s, &s->tag[i], log);
	if (s->c->thread && !s->thread_seen)
		return wc_error_new(WC_ENAME, "no thread \"%s\" %s in the log %s", s->c->thread,
				    s->calls_seen ? "made a call" : "did anything", log);
	if (s->c->function && !s->calls.function_seen && !s->calls_seen && s->sites_seen)
		return wc_error_new(WC_ENAME, "no probe is in a function \"%s\" in the log %s",
				    s->c->function, log);
	if (s->c->function && !s->calls.function_seen && (s->calls_seen || !s->c->may_have_no_calls))
		return wc_error_new(WC_ENAME, "no function \"%s\" was called in the log %s%s%s",
				    s->c->function, log, s->c->thread ? " by the thread " : "",
				    s->c->thread ? s->c->thread : "");
	return NULL;
}

uint64_t event_chooser_accesses(const struct event_chooser *s)
{
	return s->naccesses;
}

uint64_t event_chooser_captures(const struct event_chooser *s)
{
	return s->ncaptures;
}

uint64_t event_chooser_calls(const struct event_chooser *s)
{
	return s->ncalls;
}

uint64_t event_chooser_probes(const struct event_chooser *s)
{
	return s->nprobes;
}

uint64_t event_chooser_lost(const struct event_chooser *s)
{
	return s->lost;
}

struct view event_chooser_view(struct event_chooser *s)
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

	return (struct view){ .ops = &ops, .ctx = s };
}

static void add_tag(struct event_chooser *s, const char *name)
{
	struct chosen_tag *tag = &s->tag[s->ntags++];

	tag->name = name;
	similar_init(&tag->similar, name, strlen(name));
}

struct event_chooser *event_chooser_new(const struct event_choice *choice, struct view to)
{
	struct event_chooser *s = calloc(1, sizeof(*s));
	size_t i;

	if (!s)
		return NULL;
	s->c = choice;
	s->to = to;
	s->until_ns = UINT64_MAX;
	s->calls = (struct step_filter){ .function = choice->function,
					 .thread = choice->thread,
					 .depth = choice->depth };
	s->tag = calloc(choice->ntags + 1, sizeof(*s->tag));
	if (!s->tag) {
		free(s);
		return NULL;
	}
	for (i = 0; i < choice->ntags; i++)
		add_tag(s, choice->tag[i]);
	if (choice->before)
		add_tag(s, choice->before);
	return s;
}

void event_chooser_free(struct event_chooser *s)
{
	if (!s)
		return;
	names_deinit(&s->watches);
	names_deinit(&s->tags);
	step_filter_deinit(&s->calls);
	wc_error_free(s->err);
	last_captures_deinit(&s->before);
	free(s->tag);
	free(s);
}

void event_chooser_freep(struct event_chooser **s)
{
	event_chooser_free(*s);
}
