#include "watchctl/cli/flow/graph/flow_wait_stacks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"
#include "watchctl/trace/flow/flow_stack_tag.h"
#include "watchctl/view/event/replay.h"

struct reading {
	struct flow_wait_stacks *to;
	bool starved;
};

static bool keep_stack(struct flow_wait_stacks *s, const struct view_capture *c)
{
	struct flow_wait_stack copy = { .frame = calloc(c->nframes + 1, sizeof(*copy.frame)),
					.n = c->nframes,
					.end = c->walk_end };

	if (!copy.frame || !vec_push(s->stack, s->nstacks, s->stacks_cap, copy)) {
		free(copy.frame);
		return false;
	}
	memcpy(copy.frame, c->frame, c->nframes * sizeof(*copy.frame));
	return true;
}

/* Its number; nstacks: no memory. */
static size_t stack_of(struct flow_wait_stacks *s, const struct view_capture *c)
{
	const uint64_t key = hash_bytes(HASH_START, c->raw->frame, c->raw->nframes * sizeof(*c->raw->frame));
	const size_t known = (size_t)map64_get(&s->index, key);

	if (known)
		return known - 1;
	if (!keep_stack(s, c) || !map64_put(&s->index, key, (void *)s->nstacks))
		return s->nstacks;
	return s->nstacks - 1;
}

static void take(void *ctx, const struct view_capture *c)
{
	struct reading *r = ctx;
	struct flow_wait_stacks *s = r->to;
	struct flow_wait_seen seen = { .time_ns = c->time.mono_ns, .tid = c->raw->tid };
	size_t i;

	if (r->starved || !c->nframes || !c->tag->name || strcmp(c->tag->name, FLOW_STACK_TAG) != 0)
		return;
	i = stack_of(s, c);
	seen.stack = (uint32_t)i;
	r->starved = i == s->nstacks || !vec_push(s->seen, s->nseen, s->seen_cap, seen);
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct flow_wait_seen *x = a, *y = b;

	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

struct wc_error *flow_wait_stacks_read(const char *log, struct flow_wait_stacks *ret)
{
	static const struct view_ops ops = { .capture = take };
	struct reading r = { .to = ret };
	struct replay_ending ending = { 0 };
	struct wc_error *err;

	ret->names = annotate_new(NULL, ANNOTATE_STACK);
	if (!ret->names)
		return &wc_enomem;
	annotate_add_view(ret->names, (struct view){ &ops, &r });
	err = replay(log, annotate_sink(ret->names), stderr, &ending);
	if (!err && r.starved)
		err = &wc_enomem;
	if (!err && ret->nseen)
		qsort(ret->seen, ret->nseen, sizeof(*ret->seen), by_thread_and_time);
	return err;
}

const struct flow_wait_stack *flow_wait_stack_of(const struct flow_wait_stacks *s, int32_t tid,
						 uint64_t from_ns, uint64_t to_ns)
{
	const struct flow_wait_seen at = { .time_ns = from_ns, .tid = tid };
	size_t low = 0, high = s->nseen;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (by_thread_and_time(&s->seen[middle], &at) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == s->nseen || s->seen[low].tid != tid || s->seen[low].time_ns > to_ns)
		return NULL;
	return &s->stack[s->seen[low].stack];
}

void flow_wait_stacks_deinit(struct flow_wait_stacks *s)
{
	for (size_t i = 0; i < s->nstacks; i++)
		free(s->stack[i].frame);
	free(s->stack);
	free(s->seen);
	map64_deinit(&s->index);
	annotate_free(s->names);
	*s = (struct flow_wait_stacks){ 0 };
}
