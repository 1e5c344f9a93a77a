#include "watchctl/cli/flow/graph/flow_attached.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/event.h"
#include "watchctl/trace/flow/flow_attached.h"
#include "watchctl/trace/log/tracelog.h"
#include "watchctl/view/event/annotate.h"
#include "watchctl/view/event/reorder.h"
#include "watchctl/view/event/replay.h"
#include "watchctl/view/event/view.h"

/* The notes of a log */

struct named_logs {
	char *path[FLOW_ATTACHED_MOST];
	size_t n;
};

static struct wc_error *take_note(void *ctx, const struct trace_event *e)
{
	struct named_logs *logs = ctx;
	const size_t prefix = strlen(FLOW_ATTACHED);

	if (e->type != EVENT_NOTE || strncmp(e->note.text, FLOW_ATTACHED, prefix) != 0 ||
	    logs->n == FLOW_ATTACHED_MOST)
		return NULL;
	logs->path[logs->n] = strdup(e->note.text + prefix);
	return logs->path[logs->n++] ? NULL : &wc_enomem;
}

static void named_logs_deinit(struct named_logs *logs)
{
	for (size_t i = 0; i < logs->n; i++)
		free(logs->path[i]);
}

/* Where it was, or beside the log that names it: both may have been copied elsewhere. NULL: in neither place. */
static char *find_log(const char *log, const char *path)
{
	scoped(freep) char *copy = strdup(path), *own = realpath(log, NULL);
	char *beside = NULL;

	if (access(path, F_OK) == 0)
		return strdup(path);
	if (copy && own && asprintf(&beside, "%s/%s", dirname(own), basename(copy)) < 0)
		return NULL;
	if (beside && access(beside, F_OK) == 0)
		return beside;
	free(beside);
	return NULL;
}

/* Accesses */

/* The same watch is another variable in another process, and at another address. */
struct place {
	uint64_t addr;
	int32_t pid;
	uint32_t watch, variable;
};

struct reading {
	struct flow_attached *to;
	struct place *place;
	size_t nplaces, places_cap;
	bool starved;
};

static void push_lost(struct reading *r, uint64_t ns)
{
	const struct flow_attached_access a = { .of = { .time_ns = ns }, .lost = true };

	r->starved |= !vec_push(r->to->access, r->to->n, r->to->cap, a);
}

static void new_place(struct reading *r, const struct view_access *v)
{
	const struct watch_event *w = &v->watch->e;
	const struct place p = { .addr = v->raw->addr,
				 .pid = v->raw->pid,
				 .watch = v->raw->watch,
				 .variable = (uint32_t)r->to->nvariables };
	char *name = strdup(v->watch->known && w->name ? w->name : "?");

	r->starved |= !name || !vec_push(r->place, r->nplaces, r->places_cap, p) ||
		      !vec_push(r->to->variable, r->to->nvariables, r->to->variables_cap, name);
}

/* NULL: no memory. */
static const struct place *place_of(struct reading *r, const struct view_access *v)
{
	for (size_t i = r->nplaces; i-- > 0;)
		if (r->place[i].addr == v->raw->addr && r->place[i].pid == v->raw->pid &&
		    r->place[i].watch == v->raw->watch)
			return &r->place[i];
	if (!r->starved)
		new_place(r, v);
	return r->starved ? NULL : &r->place[r->nplaces - 1];
}

/* Each thread has its own, or not all accesses were to be recorded: no write is known to be the last one. */
static bool tells_nothing(const struct watch_event *w)
{
	return w->per_thread || w->filter;
}

static void put_access(void *ctx, const struct view_access *v)
{
	struct reading *r = ctx;
	const struct place *p;
	struct flow_attached_access a = {
		.of = { .time_ns = v->time.mono_ns,
			.tid = v->raw->tid,
			.reads = v->kind == ACCESS_READ || v->kind == ACCESS_READWRITE,
			.writes = v->kind == ACCESS_WRITE || v->kind == ACCESS_READWRITE },
	};

	if (tells_nothing(&v->watch->e))
		return;
	if (!a.of.reads && !a.of.writes) {
		push_lost(r, a.of.time_ns); /* it may have been a write */
		return;
	}
	p = place_of(r, v);
	if (!p)
		return;
	a.of.variable = p->variable;
	r->starved |= !vec_push(r->to->access, r->to->n, r->to->cap, a);
}

static void put_lost(void *ctx, const struct view_watch *w, const struct lost_event *l, struct view_time time)
{
	if (w || l->watch == UINT32_MAX)
		push_lost(ctx, time.mono_ns);
}

static void put_missing(void *ctx, const struct view_event *e)
{
	push_lost(ctx, e->time.mono_ns);
}

static const struct view_subscription missing[] = { { EVENT_MISSING, put_missing }, { 0 } };
static const struct view_ops ops = { .events = missing, .access = put_access, .lost = put_lost };

static struct wc_error *read_accesses(const char *path, struct reading *r, struct replay_ending *ending)
{
	scoped(annotate_freep) struct annotate *a = annotate_new(NULL, ANNOTATE_NO_VALUES);
	scoped(reorder_freep) struct reorder *order = a ? reorder_new(annotate_sink(a)) : NULL;
	struct wc_error *err;

	if (!order)
		return &wc_enomem;
	annotate_add_view(a, (struct view){ &ops, r });
	err = replay(path, reorder_sink(order), stderr, ending);
	if (!err)
		err = reorder_flush(order);
	return !err && r->starved ? &wc_enomem : err;
}

static struct wc_error *read_one(const char *log, const char *named, struct flow_attached *to)
{
	scoped(freep) char *path = find_log(log, named);
	struct reading r = { .to = to };
	const size_t before = to->n;
	struct replay_ending ending = { 0 };
	struct wc_error *err;

	if (!path) {
		fprintf(stderr,
			"watchctl: the attached log %s is not there: what its variables brought about is not shown\n",
			named);
		return NULL;
	}
	err = read_accesses(path, &r, &ending);
	free(r.place);
	if (err == &wc_enomem)
		return err;
	if (err) {
		fprintf(stderr, "watchctl: the attached log %s cannot be read: %s\n", path, err->text);
		wc_error_free(err);
	} else if (log_damage_is(&ending.damage)) {
		fprintf(stderr,
			"watchctl: the attached log %s is damaged: accesses in it may be missing here\n",
			path);
	} else if (to->n == before) {
		fprintf(stderr, "watchctl: the attached log %s has no accesses\n", path);
	}
	return NULL;
}

static int by_time(const void *a, const void *b)
{
	const struct flow_attached_access *x = a, *y = b;

	return (x->of.time_ns > y->of.time_ns) - (x->of.time_ns < y->of.time_ns);
}

/* A loss is told when it is noticed, by the next poll at the latest: what was recorded since may come behind an access that was not. */
static void widen_losses(struct flow_attached *a)
{
	uint64_t since_ns = UINT64_MAX;

	for (size_t i = a->n; i-- > 0;) {
		struct flow_attached_access *x = &a->access[i];

		if (x->lost)
			since_ns = x->of.time_ns > REORDER_WINDOW_NS ? x->of.time_ns - REORDER_WINDOW_NS : 0;
		else if (x->of.time_ns >= since_ns)
			x->lost = true;
	}
}

struct wc_error *flow_attached_read(const char *log, struct flow_attached *ret)
{
	scoped(named_logs_deinit) struct named_logs logs = { .n = 0 };
	struct replay_ending ending = { 0 };
	struct wc_error *err = replay(log, (struct event_sink){ take_note, &logs }, stderr, &ending);

	for (size_t i = 0; !err && i < logs.n; i++)
		err = read_one(log, logs.path[i], ret);
	if (err || !ret->n)
		return err;
	qsort(ret->access, ret->n, sizeof(*ret->access), by_time);
	widen_losses(ret);
	return NULL;
}

struct wc_error *flow_attached_feed(struct flow_attached *a, uint64_t ns, struct flow_graph *g)
{
	struct wc_error *err = NULL;

	for (; !err && a->next < a->n && a->access[a->next].of.time_ns < ns; a->next++) {
		if (a->access[a->next].lost)
			flow_graph_accesses_lost(g);
		else
			err = flow_graph_access(g, &a->access[a->next].of);
	}
	return err;
}

void flow_attached_deinit(struct flow_attached *a)
{
	for (size_t i = 0; i < a->nvariables; i++)
		free(a->variable[i]);
	free(a->variable);
	free(a->access);
	*a = (struct flow_attached){ 0 };
}
