#include "watchctl/view/export/export_select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/event/tag_names.h"

#define NAMES_KEPT 20 /* for an error message */

struct names {
	char *v[NAMES_KEPT];
	size_t n, more;
};

struct export_select {
	const struct export_choice *c;
	struct view to;
	struct step_filter calls;
	bool resolved, thread_seen, watch_seen, calls_seen, sites_seen;
	bool *tag_seen;
	uint64_t from_ns, until_ns;	/* of CLOCK_MONOTONIC; until is the first one left out */
	uint64_t first_call, last_call; /* passed on; 0: none */
	struct names watches, tags;
	uint64_t naccesses, ncaptures, ncalls, nprobes, lost;
	struct wc_error *err;
};

#define PASS(s, op, ...)                                           \
	do {                                                       \
		if ((s)->to.ops->op)                               \
			(s)->to.ops->op((s)->to.ctx, __VA_ARGS__); \
	} while (0)

/* Names, for messages */

static void names_add(struct names *names, const char *name)
{
	size_t i;

	for (i = 0; i < names->n; i++)
		if (!strcmp(names->v[i], name))
			return;
	if (names->n == NAMES_KEPT)
		names->more++;
	else if ((names->v[names->n] = strdup(name)))
		names->n++;
}

/* "flag, count and 3 more"; "none" */
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

static bool wants_watch(const struct export_select *s, const struct view_watch *w)
{
	if (!s->c->watch)
		return !s->c->ntags;
	return !w || !strcmp(s->c->watch, w->e.name) ||
	       (w->e.full_name && !strcmp(s->c->watch, w->e.full_name));
}

static bool wants_captures(const struct export_select *s)
{
	return s->c->ntags || !s->c->watch;
}

static bool wants_calls(const struct export_select *s)
{
	return !s->c->watch && !s->c->ntags;
}

static bool wants_tag(struct export_select *s, const struct view_tag *tag)
{
	bool wanted = !s->c->ntags && !s->c->watch;
	size_t i;

	for (i = 0; i < s->c->ntags; i++)
		if (tag_is(tag, s->c->tag[i]))
			wanted = s->tag_seen[i] = true;
	return wanted;
}

static bool wants_thread(struct export_select *s, int32_t tid, const char *comm)
{
	bool wanted = step_filter_thread(&s->calls, tid, comm);

	s->thread_seen |= wanted;
	return wanted;
}

static bool wants_time(const struct export_select *s, struct view_time t)
{
	return t.mono_ns >= s->from_ns && t.mono_ns < s->until_ns;
}

/* The first event that has a time: bounds may be relative to it. */
static void export_select_begin(struct export_select *s, struct view_time t)
{
	if (s->resolved)
		return;
	s->resolved = true;
	if (s->c->from.kind != TIME_NONE)
		s->err = export_time_resolve(&s->c->from, t, &s->from_ns);
	if (!s->err && s->c->until.kind != TIME_NONE)
		s->err = export_time_resolve(&s->c->until, t, &s->until_ns);
}

/* Events */

static void on_process(void *ctx, const struct process_event *p, struct view_time time)
{
	struct export_select *s = ctx;

	export_select_begin(s, time);
	PASS(s, process, p, time);
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct export_select *s = ctx;

	export_select_begin(s, time);
	names_add(&s->watches, w->e.name);
	if (!wants_watch(s, w))
		return;
	s->watch_seen = true;
	PASS(s, armed, w, time);
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct export_select *s = ctx;

	export_select_begin(s, a->time);
	if (!wants_watch(s, a->watch))
		return;
	s->watch_seen = true;
	if (!wants_thread(s, a->raw->tid, a->comm) || !wants_time(s, a->time))
		return;
	s->naccesses++;
	PASS(s, access, a);
}

static void on_capture(void *ctx, const struct view_capture *c)
{
	struct export_select *s = ctx;

	export_select_begin(s, c->time);
	if (c->tag->captures <= 1)
		names_add(&s->tags, c->tag->text);
	if (!wants_tag(s, c->tag) || !wants_thread(s, c->raw->tid, c->comm) || !wants_time(s, c->time))
		return;
	s->ncaptures++;
	PASS(s, capture, c);
}

/* A probe is chosen by its name, as a watch is; one that records stacks also by their tag. */
static bool wants_probe_name(struct export_select *s, const struct view_probe_site *site)
{
	if (!s->c->watch)
		return !s->c->ntags;
	if (strcmp(s->c->watch, site->probe) != 0)
		return false;
	return s->watch_seen = true;
}

static bool wants_probe_tag(struct export_select *s, const struct probe_event *e)
{
	bool wanted = false;
	size_t i;

	for (i = 0; e->kind == PROBE_KIND_STACK && i < s->c->ntags; i++)
		if (!strcmp(s->c->tag[i], e->format))
			wanted = s->tag_seen[i] = true;
	return wanted;
}

/* Of a chosen function: the one that it is in, or was inlined into. */
static bool wants_probe_function(struct export_select *s, const struct view_probe_site *site)
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
	struct export_select *s = ctx;

	export_select_begin(s, time);
	names_add(&s->watches, site->probe);
	s->sites_seen = true;
	if (wants_probe_name(s, site) && wants_probe_function(s, site))
		PASS(s, probe_site, site, time);
}

static void on_probe(void *ctx, const struct view_probe *p)
{
	struct export_select *s = ctx;
	const bool tagged = wants_probe_tag(s, p->raw);

	export_select_begin(s, p->time);
	if (!(wants_probe_name(s, p->site) || tagged) || !wants_probe_function(s, p->site) ||
	    !wants_thread(s, p->raw->tid, p->comm) || !wants_time(s, p->time))
		return;
	s->nprobes++;
	PASS(s, probe, p);
}

static void on_probe_total(void *ctx, const struct view_probe_site *site, struct view_time time)
{
	struct export_select *s = ctx;

	if (wants_probe_name(s, site) && wants_probe_function(s, site))
		PASS(s, probe_total, site, time);
}

static void on_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	struct export_select *s = ctx;
	bool wanted = l->watch == WATCH_CAPTURES ? wants_captures(s)
		      : l->watch == WATCH_CALLS	 ? wants_calls(s)
		      : l->watch == WATCH_PROBES ? wants_calls(s)
						 : wants_watch(s, w);

	export_select_begin(s, time);
	/* Of calls no summary shows. */
	if (wanted && l->watch == WATCH_CALLS)
		s->lost += l->count;
	if (wanted && wants_time(s, time))
		PASS(s, lost, w, l, time);
}

static void on_note(void *ctx, const char *text, struct view_time time)
{
	struct export_select *s = ctx;

	/* One without a time is of the log as a whole. */
	if (time.mono_ns)
		export_select_begin(s, time);
	if (!time.mono_ns || wants_time(s, time))
		PASS(s, note, text, time);
}

static void on_missing(void *ctx, const struct missing_event *m, struct view_time time)
{
	struct export_select *s = ctx;

	PASS(s, missing, m, time);
}

static bool wants_summary(const struct export_select *s, const struct view_summary *sum)
{
	if (sum->watch)
		return wants_watch(s, sum->watch);
	return sum->e.watch == WATCH_PROBES ? wants_calls(s) : wants_captures(s);
}

static void on_summary(void *ctx, const struct view_summary *sum)
{
	struct export_select *s = ctx;

	if (!wants_summary(s, sum))
		return;
	s->lost += sum->e.lost;
	PASS(s, summary, sum);
}

static void on_recording(void *ctx, const struct recording_event *r, struct view_time time)
{
	struct export_select *s = ctx;

	export_select_begin(s, time);
	if (wants_calls(s))
		PASS(s, recording, r, time);
}

static void on_thread(void *ctx, const struct thread_event *t, struct view_time time)
{
	struct export_select *s = ctx;

	export_select_begin(s, time);
	if (wants_calls(s) && wants_thread(s, t->tid, t->comm))
		PASS(s, thread, t, time);
}

static void on_range(void *ctx, const struct range_event *r, const char *comm, struct view_time time)
{
	struct export_select *s = ctx;

	export_select_begin(s, time);
	if (wants_calls(s) && wants_time(s, time))
		PASS(s, range, r, comm, time);
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct export_select *s = ctx;
	struct view_call with = *c;

	export_select_begin(s, c->time);
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
	struct export_select *s = ctx;
	struct view_return with = *r;

	if (!wants_calls(s) || !step_filter_return(&s->calls, r, &with.depth))
		return;
	if (s->first_call && r->raw->call >= s->first_call && r->raw->call <= s->last_call)
		PASS(s, ret, &with);
}

static bool wants_moment(struct export_select *s, int32_t pid, int32_t tid, const char *comm,
			 struct view_time time, uint32_t *depth)
{
	export_select_begin(s, time);
	return wants_calls(s) && step_filter_moment(&s->calls, pid, tid, comm, depth) && wants_time(s, time);
}

static void on_step(void *ctx, const struct view_step *e)
{
	struct export_select *s = ctx;
	struct view_step with = *e;

	if (wants_moment(s, e->raw->pid, e->raw->tid, e->comm, e->time, &with.depth))
		PASS(s, step, &with);
}

static void on_signal(void *ctx, const struct view_signal *e)
{
	struct export_select *s = ctx;
	struct view_signal with = *e;

	if (wants_moment(s, e->raw->pid, e->raw->tid, e->comm, e->time, &with.depth))
		PASS(s, signal, &with);
}

static void on_input(void *ctx, const struct view_input *e)
{
	struct export_select *s = ctx;
	struct view_input with = *e;

	if (wants_moment(s, e->raw->pid, e->raw->tid, e->comm, e->time, &with.depth))
		PASS(s, input, &with);
}

/* Of a program that hangs, it is the answer. */
static void on_blocked(void *ctx, const struct view_blocked *e)
{
	struct export_select *s = ctx;

	export_select_begin(s, e->time);
	if (wants_calls(s) && wants_thread(s, e->raw->tid, e->comm))
		PASS(s, blocked, e);
}

/* Afterwards */

struct wc_error *export_select_take_error(struct export_select *s)
{
	struct wc_error *err = s->err;

	s->err = NULL;
	return err;
}

static struct wc_error *unknown(const char *log, const char *kind, const char *name,
				const struct names *names)
{
	char list[2048];

	names_text(names, list, sizeof(list));
	return wc_error_new(WC_ENAME, "the log %s has no %s \"%s\"; its %s%s are: %s", log, kind, name, kind,
			    !strcmp(kind, "watch") ? "es" : "s", list);
}

struct wc_error *export_select_check(const struct export_select *s, const char *log)
{
	size_t i;

	if (s->c->watch && !s->watch_seen)
		return unknown(log, "watch", s->c->watch, &s->watches);
	for (i = 0; i < s->c->ntags; i++)
		if (!s->tag_seen[i])
			return unknown(log, "tag", s->c->tag[i], &s->tags);
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

uint64_t export_select_accesses(const struct export_select *s)
{
	return s->naccesses;
}

uint64_t export_select_captures(const struct export_select *s)
{
	return s->ncaptures;
}

uint64_t export_select_calls(const struct export_select *s)
{
	return s->ncalls;
}

uint64_t export_select_probes(const struct export_select *s)
{
	return s->nprobes;
}

uint64_t export_select_lost(const struct export_select *s)
{
	return s->lost;
}

struct view export_select_view(struct export_select *s)
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

	return (struct view){ .ops = &ops, .ctx = s };
}

struct export_select *export_select_new(const struct export_choice *choice, struct view to)
{
	struct export_select *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->c = choice;
	s->to = to;
	s->until_ns = UINT64_MAX;
	s->calls = (struct step_filter){ .function = choice->function,
					 .thread = choice->thread,
					 .depth = choice->depth };
	s->tag_seen = calloc(choice->ntags + 1, sizeof(*s->tag_seen));
	if (!s->tag_seen) {
		free(s);
		return NULL;
	}
	return s;
}

void export_select_free(struct export_select *s)
{
	if (!s)
		return;
	names_deinit(&s->watches);
	names_deinit(&s->tags);
	step_filter_deinit(&s->calls);
	wc_error_free(s->err);
	free(s->tag_seen);
	free(s);
}

void export_select_freep(struct export_select **s)
{
	export_select_free(*s);
}
