/*
 * probe_stacks - what probes have recorded, as captures for what shows these: under their tag, or (of other events) under
 * the name of the probe.
 */
#ifndef WATCHCTL_VIEW_TABLE_PROBE_STACKS_H
#define WATCHCTL_VIEW_TABLE_PROBE_STACKS_H

#include "watchctl/view/event/view.h"
#include "watchctl/view/table/stack_tree.h"

/* Zero-initialised is empty. What was fed by it points into it. */
struct probe_stacks {
	struct view_tag **tag;
	size_t n, cap;
};

/* @p as a capture, whose raw event is *@raw: its value, and its stack or its place alone. False: no memory, or too many. */
bool probe_stacks_capture(struct probe_stacks *s, const struct view_probe *p, struct capture_event *raw,
			  struct view_capture *ret);

/* Adds the stack of @p, if it has one, to @t. */
void probe_stacks_add(struct probe_stacks *s, struct stack_trees *t, const struct view_probe *p);

void probe_stacks_deinit(struct probe_stacks *s);

#endif
