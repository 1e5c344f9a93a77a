#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/view/trigger/trigger_impl.h"
#include "watchctl/view/event/step_words.h"

enum truth { NO, YES, UNKNOWN };

struct seen {
	bool known;
	struct value_number number;
	const char *text;
	const struct value_type *type; /* whose enumerators a word may be; NULL: none */
};

static struct seen of_bytes(const struct view_watch *w, unsigned int size, bool known, uint64_t raw)
{
	struct seen s = { .known = known };

	s.type = &w->e.type;
	if (known)
		s.number = value_to_number(&w->e.type, size, raw);
	return s;
}

static struct seen of_unsigned(uint64_t n)
{
	return (struct seen){ .known = true, .number = { .kind = NUMBER_UNSIGNED, .u = n } };
}

static struct seen of_text(const char *text)
{
	return (struct seen){ .known = text, .text = text };
}

static struct seen trigger_look(const struct trigger *t, size_t i, const struct view_access *a)
{
	const struct node *n = &t->v[i];

	switch (n->kind) {
	case NODE_NUMBER:
		return (struct seen){ .known = true, .number = n->number };
	case NODE_TEXT:
		return of_text(n->text);
	case NODE_NEW:
		return of_bytes(a->watch, a->raw->size, a->raw->has_new, a->raw->new_value);
	case NODE_OLD:
		return of_bytes(a->watch, a->raw->size, a->raw->has_old, a->raw->old_value);
	case NODE_SIZE:
		return of_unsigned(a->raw->size);
	case NODE_WATCH:
		if (!t->last[n->index].watch)
			return (struct seen){ 0 };
		return of_bytes(t->last[n->index].watch, t->last[n->index].size, t->last[n->index].known,
				t->last[n->index].raw);
	default:
		return (struct seen){ 0 };
	}
}

/* -1, 0, 1; *known is false where one is no number (NaN). */
static int order(const struct value_number *a, const struct value_number *b, bool *known)
{
	double x, y;

	*known = true;
	if (a->kind != NUMBER_FLOAT && b->kind != NUMBER_FLOAT) {
		bool a_negative = a->kind == NUMBER_SIGNED && a->i < 0;
		bool b_negative = b->kind == NUMBER_SIGNED && b->i < 0;
		uint64_t ua = a->kind == NUMBER_SIGNED ? (uint64_t)a->i : a->u;
		uint64_t ub = b->kind == NUMBER_SIGNED ? (uint64_t)b->i : b->u;

		if (a_negative != b_negative)
			return a_negative ? -1 : 1;
		return (ua > ub) - (ua < ub); /* also of two negative ones */
	}
	x = a->kind == NUMBER_FLOAT ? a->f : a->kind == NUMBER_SIGNED ? (double)a->i : (double)a->u;
	y = b->kind == NUMBER_FLOAT ? b->f : b->kind == NUMBER_SIGNED ? (double)b->i : (double)b->u;
	*known = x == x && y == y;
	return (x > y) - (x < y);
}

static enum truth by_op(enum compare_op op, int order)
{
	switch (op) {
	case EQUAL:
		return order == 0 ? YES : NO;
	case NOT_EQUAL:
		return order != 0 ? YES : NO;
	case LESS:
		return order < 0 ? YES : NO;
	case NOT_GREATER:
		return order <= 0 ? YES : NO;
	case GREATER:
		return order > 0 ? YES : NO;
	case NOT_LESS:
		return order >= 0 ? YES : NO;
	}
	return UNKNOWN;
}

static struct seen enumerator(struct trigger *t, const char *word, const struct value_type *type)
{
	size_t i;

	for (i = 0; type && i < type->nenumerators; i++)
		if (!strcmp(type->enumerators[i].name, word))
			return (struct seen){ .known = true,
					      .number = { .kind = NUMBER_SIGNED,
							  .i = type->enumerators[i].value } };
	if (type)
		t->unknown_word = word;
	return (struct seen){ 0 };
}

static enum truth same_text(enum compare_op op, const char *a, const char *b)
{
	if (!a || !b)
		return UNKNOWN;
	return by_op(op, strcmp(a, b) != 0);
}

/* thread and watch, which are names and not values of the program. */
static bool compare_names(const struct trigger *t, const struct node *n, const struct view_access *a,
			  enum truth *ret)
{
	const struct node *name = &t->v[n->a], *with = &t->v[n->b], *swap;
	bool known;
	struct seen s;
	struct value_number tid = { .kind = NUMBER_SIGNED, .i = a->raw->tid };

	if (with->kind == NODE_THREAD || with->kind == NODE_HIT) {
		swap = name;
		name = with;
		with = swap;
	}
	if (name->kind != NODE_THREAD && name->kind != NODE_HIT)
		return false;
	if (name->kind == NODE_HIT) {
		*ret = same_text(n->op, a->watch->e.name, with->text);
	} else if (with->kind == NODE_TEXT) {
		*ret = same_text(n->op, a->comm, with->text);
	} else {
		s = trigger_look(t, (size_t)(with - t->v), a);
		*ret = s.known ? by_op(n->op, order(&tid, &s.number, &known)) : UNKNOWN;
	}
	return true;
}

static enum truth trigger_compare(struct trigger *t, const struct node *n, const struct view_access *a)
{
	struct seen x, y;
	enum truth ret;
	bool known;
	int o;

	if (compare_names(t, n, a, &ret))
		return ret;
	x = trigger_look(t, n->a, a);
	y = trigger_look(t, n->b, a);
	if (trigger_is(t, n->a, NODE_WORD))
		x = enumerator(t, t->v[n->a].text, y.type);
	if (trigger_is(t, n->b, NODE_WORD))
		y = enumerator(t, t->v[n->b].text, x.type);
	if (!x.known || !y.known)
		return UNKNOWN;
	o = order(&x.number, &y.number, &known);
	if (!known)
		return n->op == NOT_EQUAL ? YES : NO;
	return by_op(n->op, o);
}

/* "f" and "obj::f" are names of "ns::obj::f(int)", and so are patterns of them. */
static bool function_is(const char *function, const char *pattern)
{
	char bare[512];
	const char *p;

	if (!fnmatch(pattern, function, 0))
		return true;
	for (p = step_bare_name(function, bare, sizeof(bare)); p; p = strstr(p, "::")) {
		p += p == bare ? 0 : 2; /* behind the :: that was found */
		if (!fnmatch(pattern, p, 0))
			return true;
	}
	return false;
}

static enum truth called_by(const struct view_access *a, const char *name)
{
	bool unnamed = a->walk_end != WALK_END_COMPLETE;
	size_t i;

	for (i = 0; i < a->nframes; i++) {
		if (a->frame[i].function && function_is(a->frame[i].function, name))
			return YES;
		unnamed |= !a->frame[i].function;
	}
	return unnamed ? UNKNOWN : NO;
}

static enum truth of_kind(const struct view_access *a, enum access_kind kind)
{
	if (a->kind == ACCESS_UNKNOWN)
		return UNKNOWN;
	if (a->kind == ACCESS_READWRITE)
		return kind == ACCESS_READ || kind == ACCESS_WRITE ? YES : NO;
	return a->kind == kind ? YES : NO;
}

static enum truth trigger_holds(struct trigger *t, size_t i, const struct view_access *a)
{
	static const struct value_number zero = { .kind = NUMBER_UNSIGNED };
	const struct node *n = &t->v[i];
	enum truth x, y;
	struct seen s;
	bool known;
	int o;

	switch (n->kind) {
	case NODE_EITHER:
		x = trigger_holds(t, n->a, a);
		y = x == YES ? YES : trigger_holds(t, n->b, a);
		return x == YES || y == YES ? YES : x == NO && y == NO ? NO : UNKNOWN;
	case NODE_BOTH:
		x = trigger_holds(t, n->a, a);
		y = x == NO ? NO : trigger_holds(t, n->b, a);
		return x == NO || y == NO ? NO : x == YES && y == YES ? YES : UNKNOWN;
	case NODE_NOT:
		x = trigger_holds(t, n->a, a);
		return x == UNKNOWN ? UNKNOWN : x == YES ? NO : YES;
	case NODE_COMPARE:
		return trigger_compare(t, n, a);
	case NODE_CALLER:
		return called_by(a, t->v[n->a].text);
	case NODE_KIND:
		return of_kind(a, (enum access_kind)n->index);
	case NODE_KERNEL:
		return a->origin == ORIGIN_KERNEL ? YES : NO;
	default:
		s = trigger_look(t, n->a, a);
		o = order(&s.number, &zero, &known);
		return !s.known || !known ? UNKNOWN : o ? YES : NO;
	}
}

static size_t place_of(const struct trigger *t, const struct view_watch *w)
{
	return w->e.name ? trigger_watch(t, w->e.name, strlen(w->e.name)) : t->nnames;
}

static void on_armed(void *ctx, const struct view_watch *w, struct view_time time)
{
	struct trigger *t = ctx;
	size_t i = place_of(t, w);

	(void)time;
	if (i == t->nnames)
		return;
	t->last[i].watch = w;
	t->last[i].known = w->e.has_value;
	t->last[i].raw = w->e.value;
	t->last[i].size = w->e.size;
}

static void on_access(void *ctx, const struct view_access *a)
{
	struct trigger *t = ctx;
	size_t i = place_of(t, a->watch);
	bool now;

	if (i < t->nnames) {
		t->last[i].watch = a->watch;
		t->last[i].known = a->raw->has_new;
		t->last[i].raw = a->raw->new_value;
		t->last[i].size = a->raw->size;
	}
	now = trigger_holds(t, t->root, a) == YES;
	if (now && (t->of_access || !t->held))
		t->fire(t->ctx, a);
	t->held = now;
}

struct view trigger_view(struct trigger *t, void (*fire)(void *ctx, const struct view_access *a), void *ctx)
{
	static const struct view_ops ops = { .armed = on_armed, .access = on_access };

	t->fire = fire;
	t->ctx = ctx;
	return (struct view){ &ops, t };
}

bool trigger_needs_stack(const struct trigger *t)
{
	return t->stack;
}

const char *trigger_unknown_word(const struct trigger *t)
{
	return t->unknown_word;
}
