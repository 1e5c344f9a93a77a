#include "watchctl/monitor/patch/patch_watch.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/hash.h"
#include "watchctl/base/map64.h"
#include "watchctl/monitor/reported_modules.h"
#include "watchctl/session/session.h"

#define WAIT_NS 10000000ull

struct patch_watch {
	struct patch_session *probes;
	struct monitor *watches;
	struct event_sink next;
	struct reported_modules modules;
	struct map64 code,
		threads; /* what was told of an address and of a thread: a hash of it, as a pointer */
	struct trace_event summary
		[MONITOR_WATCHES]; /* of watches that have ended: readers take one for the end of what is before it */
	unsigned int nsummaries;
	bool named; /* the process was told */
};

static void *hash(const void *bytes, size_t len)
{
	return (void *)(uintptr_t)(hash_bytes(HASH_START, bytes, len) | 1);
}

static bool is_news(struct map64 *told, uint64_t key, void *content, bool *ok)
{
	if (map64_get(told, key) == content)
		return false;
	*ok = map64_put(told, key, content);
	return true;
}

/* A thread that has ended has no name any more for the one who asks second: that is no news. */
static bool thread_is_news(struct map64 *told, const struct thread_event *t, bool *ok)
{
	const uint64_t key = (uint64_t)(uint32_t)t->pid << 32 | (uint32_t)t->tid;
	const char *comm = t->comm ? t->comm : "";

	return (*comm || !map64_get(told, key)) && is_news(told, key, hash(comm, strlen(comm)), ok);
}

/* Readers take a fact that is told again for one that has changed. */
static bool is_to_be_told(struct patch_watch *s, const struct trace_event *e, bool *ok)
{
	bool was_named = s->named;

	switch (e->type) {
	case EVENT_PROCESS:
		s->named |= !e->process.parent;
		return e->process.parent || !was_named;
	case EVENT_MODULE:
	case EVENT_MODULE_GONE:
		return reported_modules_is_news(&s->modules, e, ok);
	case EVENT_CODE:
		return is_news(&s->code, e->code.pc, hash(&e->code, sizeof(e->code)), ok);
	case EVENT_THREAD:
		return thread_is_news(&s->threads, &e->thread, ok);
	default:
		return true;
	}
}

static struct wc_error *tell_summaries(struct patch_watch *s)
{
	struct wc_error *err = NULL;

	for (unsigned int i = 0; i < s->nsummaries && !err; i++)
		err = s->next.put(s->next.ctx, &s->summary[i]);
	s->nsummaries = 0;
	return err;
}

static struct wc_error *join(void *ctx, const struct trace_event *e)
{
	struct patch_watch *s = ctx;
	struct wc_error *err = NULL;
	bool ok = true;

	if (!is_to_be_told(s, e, &ok))
		return ok ? NULL : &wc_enomem;
	if (!ok)
		return &wc_enomem;
	if (e->type == EVENT_SUMMARY && e->summary.watch != WATCH_PROBES && s->nsummaries < MONITOR_WATCHES) {
		s->summary[s->nsummaries++] = *e;
		return NULL;
	}
	if (e->type == EVENT_PROBE_TOTAL || e->type == EVENT_SUMMARY)
		err = tell_summaries(s);
	return err ? err : s->next.put(s->next.ctx, e);
}

static void free_session(struct patch_watch *s)
{
	reported_modules_deinit(&s->modules);
	map64_deinit(&s->code);
	map64_deinit(&s->threads);
	free(s);
}

/* Both begin at about the same time: a program that stands begins with us; in one that runs, the probes wait for the watches. */
static struct wc_error *open_watches(struct patch_watch *s, struct monitor_options *w)
{
	struct wc_error *err = NULL;

	w->pid = patch_session_pid(s->probes);
	w->argv = NULL;
	w->held = patch_session_held(s->probes);
	if (w->held)
		err = patch_session_begin(s->probes);
	if (!err)
		err = monitor_open(w, (struct event_sink){ join, s }, &s->watches);
	if (err || w->held)
		return err;
	err = patch_session_begin(s->probes);
	return err ? wc_error_first(err, monitor_close(s->watches)) : NULL;
}

struct wc_error *patch_watch_open(const struct patch_session_options *p, const struct monitor_options *w,
				  struct event_sink sink, struct patch_watch **ret)
{
	struct patch_watch *s = calloc(1, sizeof(*s));
	struct patch_session_options probes = *p;
	struct monitor_options watches = *w;
	struct wc_error *err;

	if (!s)
		return &wc_enomem;
	s->next = sink;
	probes.hold = true;
	err = patch_session_open(&probes, (struct event_sink){ join, s }, &s->probes);
	if (!err)
		err = open_watches(s, &watches);
	if (err) {
		err = wc_error_first(err, patch_session_close(s->probes, NULL));
		free_session(s);
		return err;
	}
	*ret = s;
	return NULL;
}

/* The watches do the waiting. */
struct wc_error *patch_watch_run(struct patch_watch *s, const struct session_limits *l, enum session_end *ret)
{
	const struct source both[] = { monitor_source(s->watches, 0, WAIT_NS),
				       patch_session_source(s->probes, l->count) };

	return session_run(both, 2, l, ret);
}

const struct patch_session *patch_watch_probes(const struct patch_watch *s)
{
	return s->probes;
}

const char *patch_watch_never_armed(const struct patch_watch *s)
{
	return monitor_never_armed(s->watches);
}

struct wc_error *patch_watch_close(struct patch_watch *s, struct patch_session_counts *counts)
{
	struct wc_error *err, *probes_err;

	if (!s)
		return NULL;
	err = monitor_close(s->watches);
	probes_err = patch_session_close(s->probes, counts);
	err = wc_error_first(err, probes_err);
	probes_err = tell_summaries(s);
	free_session(s);
	return wc_error_first(err, probes_err);
}
