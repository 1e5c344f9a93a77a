#include "watchctl/view/event/reorder.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/error.h"
#include "watchctl/base/map64.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/rows/event_copy.h"

/* A copy of an event; what it points to is behind it. Used again and again. */
struct held {
	struct held *next; /* of those not in use */
	size_t cap;	   /* bytes behind it */
	struct trace_event e;
	uint64_t behind[];
};

struct waiting {
	uint64_t time_ns, number; /* equal times stay in the order of the log */
	struct held *held;
};

struct reorder {
	struct event_sink to;
	struct waiting *heap; /* the earliest one first */
	size_t n, cap;
	struct held *unused;
	uint64_t number, newest_ns;
	bool has_tags;
	struct map64 code, threads, watches; /* what has been reported */
};

static bool is_before(const struct waiting *a, const struct waiting *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->number < b->number;
}

static void sift_up(struct waiting *h, size_t i)
{
	struct waiting w = h[i];

	for (; i && is_before(&w, &h[(i - 1) / 2]); i = (i - 1) / 2)
		h[i] = h[(i - 1) / 2];
	h[i] = w;
}

static void sift_down(struct waiting *h, size_t n)
{
	struct waiting w = h[0];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && is_before(&h[child + 1], &h[child]))
			child++;
		if (!is_before(&h[child], &w))
			break;
		h[i] = h[child];
		i = child;
	}
	h[i] = w;
}

static struct wc_error *let_first_go(struct reorder *r)
{
	struct held *held = r->heap[0].held;
	struct wc_error *err;

	r->heap[0] = r->heap[--r->n];
	if (r->n)
		sift_down(r->heap, r->n);
	err = r->to.put(r->to.ctx, &held->e);
	held->next = r->unused;
	r->unused = held;
	return err;
}

struct wc_error *reorder_flush(struct reorder *r)
{
	struct wc_error *err = NULL;

	while (!err && r->n)
		err = let_first_go(r);
	return err;
}

static struct held *take_held(struct reorder *r, size_t need)
{
	struct held *held = r->unused, *bigger;

	if (held && held->cap >= need) {
		r->unused = held->next;
		return held;
	}
	bigger = realloc(held, sizeof(*held) + need);
	if (!bigger)
		return NULL;
	if (held)
		r->unused = bigger->next;
	bigger->cap = need;
	return bigger;
}

static struct held *copy_event(struct reorder *r, const struct trace_event *e)
{
	struct held *held = take_held(r, event_copy_size(e));

	if (held)
		event_copy(e, &held->e, held->behind);
	return held;
}

static struct wc_error *hold(struct reorder *r, const struct trace_event *e)
{
	struct waiting w = { .time_ns = e->time_ns, .number = r->number++, .held = copy_event(r, e) };
	size_t max = r->has_tags ? REORDER_MAX : REORDER_FEW;
	struct wc_error *err = NULL;

	if (!w.held || !vec_push(r->heap, r->n, r->cap, w)) {
		free(w.held);
		return &wc_enomem;
	}
	sift_up(r->heap, r->n - 1);
	if (e->time_ns > r->newest_ns)
		r->newest_ns = e->time_ns;
	while (!err && r->n && (r->n > max || r->newest_ns - r->heap[0].time_ns > REORDER_WINDOW_NS))
		err = let_first_go(r);
	return err;
}

/* A fact under @key: the second one replaces the first, which those that wait may refer to. */
static struct wc_error *reported(struct reorder *r, struct map64 *facts, uint64_t key)
{
	if (map64_get(facts, key))
		return reorder_flush(r);
	return map64_put(facts, key, r) ? NULL : &wc_enomem;
}

static uint64_t thread_key(const struct thread_event *t)
{
	return (uint64_t)(uint32_t)t->pid << 32 | (uint32_t)t->tid;
}

static struct wc_error *reorder_put(void *ctx, const struct trace_event *e)
{
	struct reorder *r = ctx;
	struct wc_error *err = NULL;

	if (event_is(e->type, EVENT_LATE))
		return hold(r, e);
	switch (e->type) {
	case EVENT_CODE:
		err = reported(r, &r->code, e->code.pc);
		break;
	case EVENT_THREAD:
		err = reported(r, &r->threads, thread_key(&e->thread));
		break;
	case EVENT_WATCH:
		err = reported(r, &r->watches, e->watch.id);
		break;
	default:
		r->has_tags |= e->type == EVENT_TAG || e->type == EVENT_PROBE_SITE;
		/* A step recorder reports in order, and its calls nest in that order. */
		if (!event_is(e->type, EVENT_AHEAD))
			err = reorder_flush(r);
		break;
	}
	return err ? err : r->to.put(r->to.ctx, e);
}

struct event_sink reorder_sink(struct reorder *r)
{
	return (struct event_sink){ .put = reorder_put, .ctx = r };
}

struct reorder *reorder_new(struct event_sink to)
{
	struct reorder *r = calloc(1, sizeof(*r));

	if (r)
		r->to = to;
	return r;
}

void reorder_free(struct reorder *r)
{
	struct held *held;

	if (!r)
		return;
	while (r->n)
		free(r->heap[--r->n].held);
	while ((held = r->unused)) {
		r->unused = held->next;
		free(held);
	}
	free(r->heap);
	map64_deinit(&r->code);
	map64_deinit(&r->threads);
	map64_deinit(&r->watches);
	free(r);
}

void reorder_freep(struct reorder **r)
{
	reorder_free(*r);
}
