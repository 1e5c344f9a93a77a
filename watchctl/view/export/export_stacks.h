/*
 * export_stacks - stacks by count, those of calls too: the functions that are open in the thread when a call
 * begins, counted once a call under a tag named "calls". Of more than 1024, the innermost ones.
 */
#ifndef WATCHCTL_VIEW_EXPORT_EXPORT_STACKS_H
#define WATCHCTL_VIEW_EXPORT_EXPORT_STACKS_H

#include "watchctl/view/export/export_calls.h"
#include "watchctl/view/table/stack_tree.h"

struct export_stacks {
	struct stack_trees trees;
	struct export_threads threads;
	struct view_tag calls; /* the tag that calls are counted under */
	struct view_frame *frame;
	size_t cap;
};

/* Frames of one function are one; where it is not known, of one module. */
void export_stacks_init(struct export_stacks *s);

/* False: no memory. */
bool export_stacks_add_call(struct export_stacks *s, const struct view_call *c);
bool export_stacks_end_call(struct export_stacks *s, const struct view_return *r);

/* Counts calls; without memory, the trees are incomplete. */
struct view export_stacks_view(struct export_stacks *s);

void export_stacks_deinit(struct export_stacks *s);

#endif
