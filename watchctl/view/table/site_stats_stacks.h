/*
 * site_stats_stacks - the different stacks of one site with their counts, in a bounded space, and the tree
 * that they make when somebody wants to see it.
 *
 * Counting is what each access pays for, so a stack is recognised by its addresses, and its frames' names are
 * only compared to notice that other code lies there now.
 */
#ifndef WATCHCTL_VIEW_TABLE_SITE_STATS_STACKS_H
#define WATCHCTL_VIEW_TABLE_SITE_STATS_STACKS_H

#include "watchctl/view/event/view.h"

#define SITE_STACKS_MAX 256u /* different ones of a site */

struct site_stack {
	uint64_t hash, count;
	size_t nraw, nframes;
	enum walk_end end;
	/* Shared by all copies; of the site_stacks that counted it first. The addresses stand behind the
	 * frames. */
	struct view_frame *frame;
};

/* Zero-initialised is empty. */
struct site_stacks {
	struct site_stack *v;
	size_t n, cap, last;
	uint64_t other; /* accesses with yet another stack */
	bool is_copy;	/* frames are not its own */
};

/*
 * Counts the stack of @a. *@frames_left: how many more frames may be kept, by all who share it; goes down.
 */
void site_stacks_add(struct site_stacks *s, const struct view_access *a, size_t *frames_left);

/* A copy that later additions do not change; @s must outlive it. False: no memory, *@ret is empty. */
bool site_stacks_copy(const struct site_stacks *s, struct site_stacks *ret);

void site_stacks_deinit(struct site_stacks *s);

/* A node of the tree; nodes refer to each other by index, 0 (the root, which is no child) is none. */
struct site_node {
	const struct view_frame
		*frame;	       /* the first of those merged here; NULL: the root, or frames are missing */
	enum walk_end end;     /* why, of a node without frame */
	uint64_t count;	       /* stacks that go through here, each as often as it was counted */
	uint64_t self;	       /* of those, the ones that end here */
	size_t child, sibling; /* most stacks first */
};

/*
 * Frames of one function are merged (where that is unknown, of one place), from the outermost on, or
 * inverted. A stack that was cut short begins with a node that says so, and is never merged with whole ones.
 */
struct site_tree {
	struct site_node *v; /* v[0] is the root; its count: all stacks in the tree */
	size_t n, cap;
};

/* Zero-initialise @ret. Points into @s. False: no memory; site_tree_deinit() in any case. */
bool site_tree_build(const struct site_stacks *s, bool inverted, struct site_tree *ret);

void site_tree_deinit(struct site_tree *t);

#endif
