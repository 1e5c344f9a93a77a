/*
 * stack_tree - the stacks of one tag or one watch, counted and merged where they are equal, from their
 * outermost frame on. Bounded by the number of distinct stacks.
 *
 * A stack that was cut short begins with a node that says why, in place of the frames that are missing: it is
 * never merged with complete ones.
 */
#ifndef WATCHCTL_VIEW_TABLE_STACK_TREE_H
#define WATCHCTL_VIEW_TABLE_STACK_TREE_H

#include "watchctl/base/map64.h"
#include "watchctl/view/event/view.h"

struct tag_row;

/* Which frames are equal. */
enum stack_merge {
	MERGE_FUNCTIONS, /* of one function; where that is unknown, of one place in the module */
	MERGE_MODULES,	 /* of one function; where that is unknown, of one module */
	MERGE_PLACES,	 /* only those of one place in the code */
};

struct stack_node {
	struct stack_node *same_hash, *parent;
	struct stack_node *child;   /* most stacks first, once sorted */
	struct stack_node *sibling; /* next child of the parent */
	struct view_frame frame;    /* the first of those merged here; not of the root and of an `end` */
	uint64_t where;		    /* with the two names in `frame` and `kind`: what makes frames equal */
	uint32_t kind;
	bool is_end; /* not a frame: more are missing here, because of `end` */
	enum walk_end end;
	uint64_t count; /* stacks that go through here */
	uint64_t self;	/* of those, the ones that end here */
};

struct stack_tree {
	const struct view_tag *tag;	/* NULL: accesses */
	const struct view_watch *watch; /* NULL: captures */
	const struct tag_row *row;	/* of the tag; the owner sets it */
	struct stack_node root; /* not a frame: its children are the outermost ones. count: all stacks */
	uint64_t cut;		/* stacks that did not end with WALK_END_COMPLETE */
	size_t distinct;	/* stacks */
};

/* The id of the tag that calls are counted under: no log numbers its tags that high. */
#define STACK_TREE_CALLS (UINT32_MAX - 7)

static inline bool stack_tree_is_of_calls(const struct stack_tree *t)
{
	return t->tag && t->tag->id == STACK_TREE_CALLS;
}

/* All trees of one report; one set of names serves them. */
struct stack_trees {
	enum stack_merge merge;
	bool inverted;		       /* from the innermost frame on: who calls it */
	struct map64 by_tag, by_watch; /* id -> struct stack_tree */
	struct stack_tree **v;
	size_t n, cap;
	struct map64 nodes;	   /* hash -> struct stack_node */
	struct map64 names, texts; /* pointer -> the one equal text; hash -> struct text */
	bool incomplete;	   /* memory ran out: some stacks are not counted */
};

/* @t: zero-initialised, with merge and inverted set. */
void stack_trees_add_capture(struct stack_trees *t, const struct view_capture *c);
void stack_trees_add_access(struct stack_trees *t, const struct view_access *a);

/* Most stacks first, the trees and all children in them; equal ones by name. */
void stack_trees_sort(struct stack_trees *t);

/* The next node after @n, children first, of those below @top; NULL: none. To begin, @n is @top. */
struct stack_node *stack_node_next(const struct stack_node *top, struct stack_node *n);

/* Points into the annotate that fed it: deinit before that is freed. */
void stack_trees_deinit(struct stack_trees *t);

#endif
