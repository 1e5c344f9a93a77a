/* What sums captures up: an object for each tag, and one for each different stack. */
#include <stdlib.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/vec.h"
#include "watchctl/view/print/print_json.h"
#include "watchctl/view/print/printer_impl.h"
#include "watchctl/view/words/json.h"
#include "watchctl/view/words/view_words.h"
#include "watchctl/view/table/stack_tree.h"
#include "watchctl/view/table/tag_totals.h"

static void put_values(struct json *j, const struct value_spread *s)
{
	uint64_t low, high;
	size_t i;

	json_number(j, "values", s->n);
	json_hex(j, "min", s->min);
	value_spread_median(s, &low, &high);
	json_hex(j, "median_low", low);
	json_hex(j, "median_high", high);
	json_hex(j, "max", s->max);
	json_open(j, "histogram", '[');
	for (i = 0; i < SPREAD_BUCKETS; i++) {
		if (!s->bucket[i])
			continue;
		value_spread_bounds(i, &low, &high);
		json_open(j, NULL, '{');
		json_hex(j, "low", low);
		json_hex(j, "high", high);
		json_number(j, "count", s->bucket[i]);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void put_tag(struct printer *p, const struct tag_row *r)
{
	struct json *j = &p->json;

	print_json_begin(p, "tag");
	print_json_tag(j, r->tag);
	json_number(j, "count", r->count);
	json_number(j, "threads", tag_row_threads(r));
	json_number(j, "first_ns", r->first.mono_ns);
	json_number(j, "last_ns", r->last.mono_ns);
	json_number(j, "places", r->nplaces);
	if (r->place) {
		print_json_place(j, &r->place->frame, &r->place->source);
		json_number(j, "place_count", r->place->count);
	}
	if (r->values)
		put_values(j, r->values);
	print_json_end(p);
}

void print_json_tags(void *ctx, const struct tag_totals *t)
{
	size_t i;

	for (i = 0; i < t->n; i++)
		put_tag(ctx, t->v[i]);
}

/* The frames of the stack that ends at @leaf, innermost first whichever way the tree was built. */
static bool put_frames(struct json *j, const struct stack_trees *t, const struct stack_node *leaf,
		       enum walk_end *end)
{
	scoped(freep) const struct stack_node **path = NULL;
	size_t n = 0, cap = 0, i;

	for (; leaf->parent; leaf = leaf->parent)
		if (!vec_push(path, n, cap, leaf))
			return false;
	*end = WALK_END_COMPLETE;
	json_open(j, "stack", '[');
	for (i = 0; i < n; i++) {
		const struct stack_node *node = path[t->inverted ? n - 1 - i : i];

		if (node->is_end)
			*end = node->end;
		else
			print_json_frame(j, &node->frame, !node->frame.module);
	}
	json_close(j, ']');
	return true;
}

static bool put_stack(struct printer *p, const struct stack_trees *t, const struct stack_tree *tree,
		      const struct stack_node *leaf)
{
	struct json *j = &p->json;
	enum walk_end end;
	bool ok;

	print_json_begin(p, "stack_count");
	if (stack_tree_is_of_calls(tree))
		json_text(j, "of", "calls");
	else if (tree->tag)
		print_json_tag(j, tree->tag);
	else
		json_text(j, "watch", tree->watch->e.name);
	json_number(j, "count", leaf->self);
	ok = put_frames(j, t, leaf, &end);
	if (ok)
		json_text(j, "stack_end", text_walk_end_name(end));
	else
		j->line.failed = true;
	print_json_end(p);
	return ok;
}

static int by_self(const void *a, const void *b)
{
	const struct stack_node *const *x = a, *const *y = b;

	return ((*x)->self < (*y)->self) - ((*x)->self > (*y)->self);
}

static bool put_tree(struct printer *p, const struct stack_trees *t, struct stack_tree *tree)
{
	scoped(freep) struct stack_node **leaf = NULL;
	struct stack_node *n;
	size_t count = 0, cap = 0, i;
	bool ok = true;

	if (tree->row)
		put_tag(p, tree->row);
	for (n = &tree->root; n; n = stack_node_next(&tree->root, n))
		if (n->self && !vec_push(leaf, count, cap, n))
			return false;
	if (count)
		qsort(leaf, count, sizeof(struct stack_node *), by_self);
	for (i = 0; i < count && ok; i++)
		ok = put_stack(p, t, tree, leaf[i]);
	return ok;
}

void print_json_stacks(void *ctx, const struct stack_trees *t)
{
	struct printer *p = ctx;
	size_t i;

	for (i = 0; i < t->n; i++)
		if (!put_tree(p, t, t->v[i]))
			break;
}
