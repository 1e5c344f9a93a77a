#include "watchctl/view/table/stack_tree.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"

/* Equal names may come at several addresses: they are made one, so that they compare as pointers. */
struct text {
	struct text *same_hash;
	const char *text; /* the symbolizer's, which lives longer */
};

static uint64_t stack_tree_mix(uint64_t h, uint64_t x)
{
	h = (h ^ x) * 0xff51afd7ed558ccdu;
	return h ^ h >> 32;
}

static bool intern_new(struct stack_trees *t, const char *s, const char **ret)
{
	uint64_t hash = hash_text(HASH_START, s);
	struct text *first = map64_get(&t->texts, hash), *text;

	for (text = first; text; text = text->same_hash)
		if (!strcmp(text->text, s))
			break;
	if (!text) {
		text = malloc(sizeof(*text));
		if (!text)
			return false;
		*text = (struct text){ .same_hash = first, .text = s };
		if (!map64_put(&t->texts, hash, text)) {
			free(text);
			return false;
		}
	}
	*ret = text->text;
	return map64_put(&t->names, (uintptr_t)s, (void *)text->text);
}

static bool intern(struct stack_trees *t, const char *s, const char **ret)
{
	*ret = s ? map64_get(&t->names, (uintptr_t)s) : NULL;
	return !s || *ret || intern_new(t, s, ret);
}

/* What makes frames equal. */
struct key {
	const char *module, *function;
	uint64_t where;
	uint32_t kind; /* of the node: bits for signal, inlined, is_end, and the end */
};

static bool key_of(struct stack_trees *t, const struct view_frame *f, struct key *ret)
{
	bool place = t->merge == MERGE_PLACES || (t->merge == MERGE_FUNCTIONS && !f->function);

	if (!intern(t, f->module, &ret->module) || !intern(t, f->function, &ret->function))
		return false;
	ret->where = !place ? 0 : f->module ? f->module_offset : f->ip;
	ret->kind = f->signal | (place && f->inlined) << 1;
	return true;
}

static struct key end_key(enum walk_end end)
{
	return (struct key){ .kind = 4u | (uint32_t)end << 3 };
}

static bool key_is(const struct stack_node *n, const struct key *k)
{
	return n->frame.module == k->module && n->frame.function == k->function && n->where == k->where &&
	       n->kind == k->kind;
}

static struct stack_node *find_child(const struct stack_trees *t, const struct stack_node *parent,
				     const struct key *k, uint64_t hash)
{
	struct stack_node *n;

	for (n = map64_get(&t->nodes, hash); n; n = n->same_hash)
		if (n->parent == parent && key_is(n, k))
			return n;
	return NULL;
}

static struct stack_node *add_child(struct stack_trees *t, struct stack_node *parent, uint64_t hash)
{
	struct stack_node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->parent = parent;
	n->same_hash = map64_get(&t->nodes, hash);
	if (!map64_put(&t->nodes, hash, n)) {
		free(n);
		return NULL;
	}
	n->sibling = parent->child;
	parent->child = n;
	return n;
}

static uint64_t hash_key(const struct stack_node *parent, const struct key *k)
{
	uint64_t h = stack_tree_mix((uintptr_t)parent, (uintptr_t)k->module);

	return stack_tree_mix(stack_tree_mix(stack_tree_mix(h, (uintptr_t)k->function), k->where), k->kind);
}

/* The child of @parent for one more frame, or, where @f is NULL, for the frames that are missing. */
static struct stack_node *descend(struct stack_trees *t, struct stack_node *parent,
				  const struct view_frame *f, enum walk_end end)
{
	struct stack_node *n;
	struct key k;
	uint64_t hash;

	if (!f)
		k = end_key(end);
	else if (!key_of(t, f, &k))
		return NULL;
	hash = hash_key(parent, &k);
	n = find_child(t, parent, &k, hash);
	if (!n) {
		n = add_child(t, parent, hash);
		if (!n)
			return NULL;
		n->is_end = !f;
		n->end = end;
		n->frame = f ? *f : (struct view_frame){ 0 };
		n->frame.module = k.module;
		n->frame.function = k.function;
		n->where = k.where;
		n->kind = k.kind;
	}
	return n;
}

/* Where the stack ends in the tree; what is not there yet is made. */
static struct stack_node *leaf_of(struct stack_trees *t, struct stack_node *root, const struct view_frame *f,
				  size_t nframes, enum walk_end end)
{
	bool cut = end != WALK_END_COMPLETE;
	struct stack_node *n = root;
	size_t i;

	if (cut && !t->inverted)
		n = descend(t, n, NULL, end);
	for (i = 0; n && i < nframes; i++)
		n = descend(t, n, t->inverted ? &f[i] : &f[nframes - 1 - i], end);
	if (n && cut && t->inverted)
		n = descend(t, n, NULL, end);
	return n;
}

static void add_stack(struct stack_trees *t, struct stack_tree *tree, const struct view_frame *f,
		      size_t nframes, enum walk_end end)
{
	struct stack_node *n = leaf_of(t, &tree->root, f, nframes, end);

	if (!n) {
		t->incomplete = true;
		return;
	}
	tree->distinct += !n->self++;
	tree->cut += end != WALK_END_COMPLETE;
	for (; n; n = n->parent)
		n->count++;
}

static struct stack_tree *tree_of(struct stack_trees *t, struct map64 *by_id, uint32_t id)
{
	struct stack_tree *tree = map64_get(by_id, id);

	if (tree)
		return tree;
	tree = calloc(1, sizeof(*tree));
	if (!tree)
		return NULL;
	if (!vec_reserve((void **)&t->v, &t->cap, t->n + 1, sizeof(struct stack_tree *)) ||
	    !map64_put(by_id, id, tree)) {
		free(tree);
		return NULL;
	}
	t->v[t->n++] = tree;
	return tree;
}

void stack_trees_add_capture(struct stack_trees *t, const struct view_capture *c)
{
	struct stack_tree *tree = tree_of(t, &t->by_tag, c->tag->id);

	if (!tree) {
		t->incomplete = true;
		return;
	}
	tree->tag = c->tag;
	add_stack(t, tree, c->frame, c->nframes, c->walk_end);
}

void stack_trees_add_access(struct stack_trees *t, const struct view_access *a)
{
	struct stack_tree *tree = tree_of(t, &t->by_watch, a->watch->e.id);

	if (!tree) {
		t->incomplete = true;
		return;
	}
	tree->watch = a->watch;
	add_stack(t, tree, a->frame, a->nframes, a->walk_end);
}

/* Order */

static int compare_texts(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int compare_nodes(const struct stack_node *x, const struct stack_node *y)
{
	int order;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	if (x->is_end || y->is_end)
		return x->is_end != y->is_end ? x->is_end - y->is_end : (int)x->end - (int)y->end;
	order = compare_texts(x->frame.function, y->frame.function);
	if (!order)
		order = compare_texts(x->frame.module, y->frame.module);
	if (!order)
		order = (x->frame.module_offset > y->frame.module_offset) -
			(x->frame.module_offset < y->frame.module_offset);
	return order ? order : (x->frame.ip > y->frame.ip) - (x->frame.ip < y->frame.ip);
}

static struct stack_node *merge_lists(struct stack_node *a, struct stack_node *b)
{
	struct stack_node *first = NULL, **end = &first;

	while (a && b) {
		struct stack_node **least = compare_nodes(a, b) <= 0 ? &a : &b;

		*end = *least;
		end = &(*least)->sibling;
		*least = *end;
	}
	*end = a ? a : b;
	return first;
}

/* Merge sort from below: lists of 1, 2, 4 ... nodes are kept until there are two of a size. */
static struct stack_node *sort_list(struct stack_node *list)
{
	struct stack_node *sorted[64] = { 0 }, *n;
	size_t i;

	while (list) {
		n = list;
		list = list->sibling;
		n->sibling = NULL;
		for (i = 0; sorted[i]; i++) {
			n = merge_lists(sorted[i], n);
			sorted[i] = NULL;
		}
		sorted[i] = n;
	}
	for (i = 0, n = NULL; i < 64; i++)
		n = merge_lists(sorted[i], n);
	return n;
}

struct stack_node *stack_node_next(const struct stack_node *top, struct stack_node *n)
{
	if (n->child)
		return n->child;
	while (n != top && !n->sibling)
		n = n->parent;
	return n == top ? NULL : n->sibling;
}

static int by_count(const void *a, const void *b)
{
	const struct stack_tree *const *px = a, *const *py = b;
	const struct stack_tree *x = *px, *y = *py;

	if (!x->tag != !y->tag)
		return x->tag ? -1 : 1;
	if (x->root.count != y->root.count)
		return x->root.count < y->root.count ? 1 : -1;
	if (x->tag)
		return (x->tag->id > y->tag->id) - (x->tag->id < y->tag->id);
	return (x->watch->e.id > y->watch->e.id) - (x->watch->e.id < y->watch->e.id);
}

void stack_trees_sort(struct stack_trees *t)
{
	struct stack_node *n;
	size_t i;

	for (i = 0; i < t->n; i++)
		for (n = &t->v[i]->root; n; n = stack_node_next(&t->v[i]->root, n))
			n->child = sort_list(n->child);
	if (t->n)
		qsort(t->v, t->n, sizeof(struct stack_tree *), by_count);
}

void stack_trees_deinit(struct stack_trees *t)
{
	struct stack_node *n, *node_after;
	struct text *text, *text_after;
	size_t i;

	for (i = 0; i < t->nodes.cap; i++)
		for (n = t->nodes.slot[i].used ? t->nodes.slot[i].value : NULL; n; n = node_after) {
			node_after = n->same_hash;
			free(n);
		}
	for (i = 0; i < t->texts.cap; i++)
		for (text = t->texts.slot[i].used ? t->texts.slot[i].value : NULL; text; text = text_after) {
			text_after = text->same_hash;
			free(text);
		}
	for (i = 0; i < t->n; i++)
		free(t->v[i]);
	free(t->v);
	map64_deinit(&t->nodes);
	map64_deinit(&t->names);
	map64_deinit(&t->texts);
	map64_deinit(&t->by_tag);
	map64_deinit(&t->by_watch);
	*t = (struct stack_trees){ 0 };
}
