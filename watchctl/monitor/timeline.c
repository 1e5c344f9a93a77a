#include "watchctl/monitor/timeline.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/rows/event_copy.h"

#define HELD_MAX (16u << 20) /* bytes; what is more goes on, in the best order there is */

struct held {
	struct held *next;
	size_t size;
	struct trace_event event;
	uint64_t behind[];
};

/* First come, first gone. */
struct stream {
	struct held *first, **end;
};

struct timeline {
	struct event_sink next;
	struct stream accesses, captures;
	size_t bytes;
	uint64_t gone_start, gone_end; /* spans the modules that have gone */
};

struct timeline *timeline_new(struct event_sink next)
{
	struct timeline *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->next = next;
	t->accesses.end = &t->accesses.first;
	t->captures.end = &t->captures.first;
	return t;
}

static void stream_free(struct stream *s)
{
	struct held *h, *next;

	for (h = s->first; h; h = next) {
		next = h->next;
		free(h);
	}
}

void timeline_free(struct timeline *t)
{
	if (!t)
		return;
	stream_free(&t->accesses);
	stream_free(&t->captures);
	free(t);
}

static struct stream *earlier(struct timeline *t)
{
	const struct held *a = t->accesses.first, *c = t->captures.first;

	if (!a || !c)
		return a ? &t->accesses : &t->captures;
	return a->event.time_ns <= c->event.time_ns ? &t->accesses : &t->captures;
}

static struct wc_error *let_go(struct timeline *t, struct stream *s)
{
	struct held *h = s->first;
	struct wc_error *err;

	s->first = h->next;
	if (!s->first)
		s->end = &s->first;
	t->bytes -= h->size;
	err = t->next.put(t->next.ctx, &h->event);
	free(h);
	return err;
}

struct wc_error *timeline_release(struct timeline *t, uint64_t until_ns)
{
	struct wc_error *err = NULL;
	struct stream *s;

	for (s = earlier(t); !err && s->first && s->first->event.time_ns <= until_ns; s = earlier(t))
		err = let_go(t, s);
	return err;
}

static struct wc_error *hold(struct timeline *t, const struct trace_event *e)
{
	struct stream *s = e->type == EVENT_ACCESS ? &t->accesses : &t->captures;
	size_t size = sizeof(struct held) + event_copy_size(e);
	struct held *h = malloc(size);

	if (!h)
		return &wc_enomem;
	h->next = NULL;
	h->size = size;
	event_copy(e, &h->event, h->behind);
	*s->end = h;
	s->end = &h->next;
	t->bytes += size;
	while (t->bytes > HELD_MAX) {
		struct wc_error *err = let_go(t, earlier(t));

		if (err)
			return err;
	}
	return NULL;
}

/* What is held must be reported before this; a module in the place of another has nothing to do with it. */
static bool ends_something(struct timeline *t, const struct trace_event *e)
{
	if (e->type == EVENT_MODULE)
		return e->module.start < t->gone_end && t->gone_start < e->module.end;
	if (e->type == EVENT_MODULE_GONE) {
		if (!t->gone_end || e->module.start < t->gone_start)
			t->gone_start = e->module.start;
		if (e->module.end > t->gone_end)
			t->gone_end = e->module.end;
	}
	return e->type == EVENT_MODULE_GONE || e->type == EVENT_PROCESS || e->type == EVENT_SUMMARY;
}

static struct wc_error *timeline_put(void *ctx, const struct trace_event *e)
{
	struct timeline *t = ctx;
	struct wc_error *err = NULL;

	if (e->type == EVENT_ACCESS || e->type == EVENT_CAPTURE)
		return hold(t, e);
	if (ends_something(t, e))
		err = timeline_release(t, UINT64_MAX);
	return err ? err : t->next.put(t->next.ctx, e);
}

struct event_sink timeline_sink(struct timeline *t)
{
	return (struct event_sink){ timeline_put, t };
}
