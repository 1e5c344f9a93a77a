#include "watchctl/view/export/export_stacks.h"

#include <stdlib.h>

#define DEEPEST 1024 /* what recursion makes deeper is cut: else its time would grow with the square */

void export_stacks_init(struct export_stacks *s)
{
	*s = (struct export_stacks){ .trees = { .merge = MERGE_MODULES },
				     .calls = { .id = STACK_TREE_CALLS, .name = "calls", .text = "calls" } };
}

bool export_stacks_add_call(struct export_stacks *s, const struct view_call *c)
{
	struct export_thread *th = export_thread_get(&s->threads, c->raw->pid, c->raw->tid);
	struct view_capture stack = { .tag = &s->calls };
	size_t n;

	if (!th)
		return false;
	for (n = export_calls_ended_by(th, c); n; n--)
		export_calls_pop(&s->threads, th);
	if (!export_calls_push(&s->threads, th, c))
		return false;
	stack.frame = export_calls_frames(th, DEEPEST, &s->frame, &s->cap);
	stack.nframes = th->nopen < DEEPEST ? th->nopen : DEEPEST;
	stack.walk_end = th->nopen <= DEEPEST ? WALK_END_COMPLETE : WALK_END_DEPTH;
	if (!stack.frame)
		return false;
	stack_trees_add_capture(&s->trees, &stack);
	return true;
}

bool export_stacks_end_call(struct export_stacks *s, const struct view_return *r)
{
	struct export_thread *th = export_thread_get(&s->threads, r->raw->pid, r->raw->tid);
	size_t n;

	if (!th)
		return false;
	for (n = export_calls_ended_with(th, r->raw->call); n; n--)
		export_calls_pop(&s->threads, th);
	return true;
}

static void on_call(void *ctx, const struct view_call *c)
{
	struct export_stacks *s = ctx;

	s->trees.incomplete |= !export_stacks_add_call(s, c);
}

static void on_return(void *ctx, const struct view_return *r)
{
	struct export_stacks *s = ctx;

	s->trees.incomplete |= !export_stacks_end_call(s, r);
}

struct view export_stacks_view(struct export_stacks *s)
{
	static const struct view_ops ops = { .call = on_call, .ret = on_return };

	return (struct view){ .ops = &ops, .ctx = s };
}

void export_stacks_deinit(struct export_stacks *s)
{
	stack_trees_deinit(&s->trees);
	export_threads_deinit(&s->threads);
	free(s->frame);
}
