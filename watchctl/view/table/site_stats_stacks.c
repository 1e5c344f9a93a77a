#include "watchctl/view/table/site_stats_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

static uint64_t hash_of(const struct access_event *e)
{
	uint64_t h = e->walk_end + 0x9e3779b97f4a7c15u;
	uint32_t i;

	for (i = 0; i < e->nframes; i++) {
		h = (h ^ e->frame[i]) * 0xff51afd7ed558ccdu;
		h ^= h >> 32;
	}
	return h;
}

static uint64_t *raw_of(const struct site_stack *s)
{
	return (uint64_t *)(s->frame + s->nframes);
}

/* Names are the symbolizer's: the same pointers as long as the same code lies there. */
static bool same_names(const struct site_stack *s, const struct view_access *a)
{
	size_t i;

	for (i = 0; i < s->nframes; i++)
		if (s->frame[i].module != a->frame[i].module ||
		    s->frame[i].function != a->frame[i].function ||
		    s->frame[i].module_offset != a->frame[i].module_offset)
			return false;
	return true;
}

static bool is_stack(const struct site_stack *s, const struct view_access *a, uint64_t hash)
{
	const struct access_event *e = a->raw;

	return s->hash == hash && s->end == a->walk_end && s->nraw == e->nframes &&
	       s->nframes == a->nframes && !memcmp(raw_of(s), e->frame, e->nframes * sizeof(*e->frame)) &&
	       same_names(s, a);
}

static bool add_stack(struct site_stacks *s, const struct view_access *a, uint64_t hash)
{
	struct site_stack stack = {
		.hash = hash, .count = 1, .nraw = a->raw->nframes, .nframes = a->nframes, .end = a->walk_end
	};

	stack.frame = malloc(a->nframes * sizeof(*a->frame) + stack.nraw * sizeof(uint64_t) + 1);
	if (!stack.frame)
		return false;
	if (a->nframes)
		memcpy(stack.frame, a->frame, a->nframes * sizeof(*a->frame));
	memcpy(raw_of(&stack), a->raw->frame, stack.nraw * sizeof(uint64_t));
	if (!vec_push(s->v, s->n, s->cap, stack)) {
		free(stack.frame);
		return false;
	}
	s->last = s->n - 1;
	return true;
}

void site_stacks_add(struct site_stacks *s, const struct view_access *a, size_t *frames_left)
{
	uint64_t hash = hash_of(a->raw);
	size_t i;

	if (s->last < s->n && is_stack(&s->v[s->last], a, hash)) {
		s->v[s->last].count++;
		return;
	}
	for (i = 0; i < s->n; i++) {
		if (is_stack(&s->v[i], a, hash)) {
			s->v[i].count++;
			s->last = i;
			return;
		}
	}
	if (s->n == SITE_STACKS_MAX || a->nframes > *frames_left || !add_stack(s, a, hash))
		s->other++;
	else
		*frames_left -= a->nframes;
}

bool site_stacks_copy(const struct site_stacks *s, struct site_stacks *ret)
{
	*ret = *s;
	ret->is_copy = true;
	ret->cap = s->n;
	ret->v = NULL;
	if (!s->n)
		return true;
	ret->v = calloc(s->n, sizeof(*s->v));
	if (!ret->v) {
		*ret = (struct site_stacks){ 0 };
		return false;
	}
	memcpy(ret->v, s->v, s->n * sizeof(*s->v));
	return true;
}

void site_stacks_deinit(struct site_stacks *s)
{
	size_t i;

	for (i = 0; i < s->n && !s->is_copy; i++)
		free(s->v[i].frame);
	free(s->v);
	*s = (struct site_stacks){ 0 };
}

/* The tree */

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool is_merged(const struct site_node *n, const struct view_frame *f, enum walk_end end)
{
	const struct view_frame *g = n->frame;

	if (!f || !g)
		return !f && !g && n->end == end;
	if (f->signal != g->signal || !same_text(f->module, g->module) ||
	    !same_text(f->function, g->function))
		return false;
	if (f->function)
		return true;
	return f->module ? f->module_offset == g->module_offset : f->ip == g->ip;
}

/* The child of @parent for @f, or, where that is NULL, for frames that are missing; 0: no memory. */
static size_t descend(struct site_tree *t, size_t parent, const struct view_frame *f, enum walk_end end)
{
	struct site_node fresh = { .frame = f, .end = end };
	size_t i;

	for (i = t->v[parent].child; i; i = t->v[i].sibling)
		if (is_merged(&t->v[i], f, end))
			return i;
	fresh.sibling = t->v[parent].child;
	if (!vec_push(t->v, t->n, t->cap, fresh))
		return 0;
	t->v[parent].child = t->n - 1;
	return t->n - 1;
}

static bool site_stats_stacks_enter(struct site_tree *t, size_t *at, const struct view_frame *f,
				    enum walk_end end, uint64_t count)
{
	*at = descend(t, *at, f, end);
	if (*at)
		t->v[*at].count += count;
	return *at != 0;
}

static bool add_to_tree(struct site_tree *t, const struct site_stack *s, bool inverted)
{
	bool cut = s->end != WALK_END_COMPLETE;
	size_t at = 0, i;

	t->v[0].count += s->count;
	if (cut && !inverted && !site_stats_stacks_enter(t, &at, NULL, s->end, s->count))
		return false;
	for (i = 0; i < s->nframes; i++)
		if (!site_stats_stacks_enter(t, &at, &s->frame[inverted ? i : s->nframes - 1 - i], s->end,
					     s->count))
			return false;
	if (cut && inverted && !site_stats_stacks_enter(t, &at, NULL, s->end, s->count))
		return false;
	t->v[at].self += s->count;
	return true;
}

/* Sorts the children of @parent, most stacks first; equal ones in the order in which they came. */
static void sort_children(struct site_tree *t, size_t parent)
{
	size_t sorted = 0, i, next, *at;

	for (i = t->v[parent].child; i; i = next) {
		next = t->v[i].sibling;
		for (at = &sorted; *at && (t->v[*at].count > t->v[i].count ||
					   (t->v[*at].count == t->v[i].count && *at < i));)
			at = &t->v[*at].sibling;
		t->v[i].sibling = *at;
		*at = i;
	}
	t->v[parent].child = sorted;
}

bool site_tree_build(const struct site_stacks *s, bool inverted, struct site_tree *ret)
{
	struct site_node root = { 0 };
	size_t i;

	if (!vec_push(ret->v, ret->n, ret->cap, root))
		return false;
	for (i = 0; i < s->n; i++)
		if (!add_to_tree(ret, &s->v[i], inverted))
			return false;
	for (i = 0; i < ret->n; i++)
		sort_children(ret, i);
	return true;
}

void site_tree_deinit(struct site_tree *t)
{
	free(t->v);
	*t = (struct site_tree){ 0 };
}
