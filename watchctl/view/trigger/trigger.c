#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "watchctl/code/symbols/bare_name.h"
#include "watchctl/view/trigger/trigger_impl.h"

enum truth { NO, YES, UNKNOWN };

struct seen {
	bool known;
	struct value_number number;
	bool wide;		       /* 64 bits without a sign */
	const struct value_type *type; /* whose enumerators a word may be; NULL: none */
};

static struct seen of_bytes(const struct view_watch *w, unsigned int size, bool known, uint64_t raw)
{
	struct seen s = { .known = known };

	s.type = &w->e.type;
	if (known)
		s.number = value_to_number(&w->e.type, size, raw);
	s.wide = known && size == 8 && s.number.kind == NUMBER_UNSIGNED;
	return s;
}

static struct seen of_unsigned(uint64_t n)
{
	return (struct seen){ .known = true, .wide = true, .number = { .kind = NUMBER_UNSIGNED, .u = n } };
}

static struct seen of_signed(int64_t n)
{
	return (struct seen){ .known = true, .number = { .kind = NUMBER_SIGNED, .i = n } };
}

static struct seen of_register(const struct view_access *a, const struct reg_name *r)
{
	uint64_t raw = a->raw->regs.r[r->reg];

	if (a->raw->displaced)
		return (struct seen){ 0 };
	if (r->half)
		return of_signed((int32_t)raw);
	return r->is_address ? of_unsigned(raw) : of_signed((int64_t)raw);
}

static struct seen of_meaning(const struct trigger *t, size_t i, const struct view_access *a)
{
	const struct meaning *m = &t->means[i];

	switch (m->kind) {
	case MEANS_NUMBER:
		return of_signed(m->number);
	case MEANS_NEW:
		return of_bytes(a->watch, a->raw->size, a->raw->has_new, a->raw->new_value);
	case MEANS_OLD:
		return of_bytes(a->watch, a->raw->size, a->raw->has_old && !a->raw->old_uncertain,
				a->raw->old_value);
	case MEANS_SIZE:
		return of_unsigned(a->raw->size);
	case MEANS_REGISTER:
		return of_register(a, &m->reg);
	case MEANS_WATCH:
		if (!t->last[m->index].watch)
			return (struct seen){ 0 };
		return of_bytes(t->last[m->index].watch, t->last[m->index].size, t->last[m->index].known,
				t->last[m->index].raw);
	default:
		return (struct seen){ 0 };
	}
}

/* Arithmetic: 64 bits, that wrap; double where one side has a fraction. */

static uint64_t bits_of(const struct value_number *n)
{
	return n->kind == NUMBER_SIGNED ? (uint64_t)n->i : n->u;
}

static double double_of(const struct value_number *n)
{
	return n->kind == NUMBER_FLOAT ? n->f : n->kind == NUMBER_SIGNED ? (double)n->i : (double)n->u;
}

static bool apply_float(enum condition_op op, double a, double b, double *ret)
{
	switch (op) {
	case CONDITION_ADD:
		*ret = a + b;
		return true;
	case CONDITION_SUB:
		*ret = a - b;
		return true;
	case CONDITION_MUL:
		*ret = a * b;
		return true;
	case CONDITION_DIV:
		*ret = a / b;
		return true;
	default:
		return false; /* bits of a fraction mean nothing */
	}
}

/* @wide: both are without a sign. */
static bool divide(enum condition_op op, uint64_t a, uint64_t b, bool wide, uint64_t *ret)
{
	if (!b)
		return false;
	if (wide)
		*ret = op == CONDITION_DIV ? a / b : a % b;
	else if ((int64_t)b == -1) /* INT64_MIN / -1 does not fit */
		*ret = op == CONDITION_DIV ? 0 - a : 0;
	else
		*ret = (uint64_t)(op == CONDITION_DIV ? (int64_t)a / (int64_t)b : (int64_t)a % (int64_t)b);
	return true;
}

static bool apply_bits(enum condition_op op, uint64_t a, uint64_t b, bool wide, uint64_t *ret)
{
	switch (op) {
	case CONDITION_OR:
		*ret = a | b;
		return true;
	case CONDITION_XOR:
		*ret = a ^ b;
		return true;
	case CONDITION_AND:
		*ret = a & b;
		return true;
	case CONDITION_LEFT:
		*ret = a << (b & 63);
		return true;
	case CONDITION_RIGHT:
		*ret = wide ? a >> (b & 63) : (uint64_t)((int64_t)a >> (b & 63));
		return true;
	case CONDITION_ADD:
		*ret = a + b;
		return true;
	case CONDITION_SUB:
		*ret = a - b;
		return true;
	case CONDITION_MUL:
		*ret = a * b;
		return true;
	case CONDITION_DIV:
	case CONDITION_MOD:
		return divide(op, a, b, wide, ret);
	default:
		return false;
	}
}

/* What has no sign and 64 bits makes the result so, as in C. */
static struct seen calculated(enum condition_op op, const struct seen *a, const struct seen *b)
{
	bool shifts = op == CONDITION_LEFT || op == CONDITION_RIGHT;
	struct seen ret = { .known = a->known && b->known, .wide = a->wide || (!shifts && b->wide) };
	uint64_t bits = 0;

	if (!ret.known)
		return ret;
	if (a->number.kind == NUMBER_FLOAT || b->number.kind == NUMBER_FLOAT) {
		ret.number.kind = NUMBER_FLOAT;
		ret.known = apply_float(op, double_of(&a->number), double_of(&b->number), &ret.number.f);
		return ret;
	}
	ret.known = apply_bits(op, bits_of(&a->number), bits_of(&b->number), ret.wide, &bits);
	ret.number.kind = ret.wide ? NUMBER_UNSIGNED : NUMBER_SIGNED;
	ret.number.i = (int64_t)bits;
	ret.number.u = bits;
	return ret;
}

static struct seen trigger_look(const struct trigger *t, size_t i, const struct view_access *a)
{
	const struct condition_node *n = &t->tree.v[i];
	struct seen x, y, zero = of_signed(0);

	switch (n->kind) {
	case CONDITION_INTEGER: /* what has no sign, and needs it */
		return n->integer < 0 ? of_unsigned((uint64_t)n->integer) : of_signed(n->integer);
	case CONDITION_CHARACTER:
		return of_signed((signed char)n->integer);
	case CONDITION_FLOAT:
		return (struct seen){ .known = true, .number = { .kind = NUMBER_FLOAT, .f = n->number } };
	case CONDITION_MINUS:
		if (condition_is(&t->tree, n->a, CONDITION_INTEGER))
			return of_signed((int64_t)(0 - (uint64_t)t->tree.v[n->a].integer));
		x = trigger_look(t, n->a, a);
		return calculated(CONDITION_SUB, &zero, &x);
	case CONDITION_CALCULATE:
		x = trigger_look(t, n->a, a);
		y = trigger_look(t, n->b, a);
		return calculated(n->op, &x, &y);
	default:
		return of_meaning(t, i, a);
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

static enum truth by_op(enum condition_op op, int order)
{
	switch (op) {
	case CONDITION_EQUAL:
		return order == 0 ? YES : NO;
	case CONDITION_NOT_EQUAL:
		return order != 0 ? YES : NO;
	case CONDITION_LESS:
		return order < 0 ? YES : NO;
	case CONDITION_NOT_GREATER:
		return order <= 0 ? YES : NO;
	case CONDITION_GREATER:
		return order > 0 ? YES : NO;
	case CONDITION_NOT_LESS:
		return order >= 0 ? YES : NO;
	default:
		return UNKNOWN;
	}
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

static enum truth same_text(enum condition_op op, const char *a, const char *b)
{
	if (!a || !b)
		return UNKNOWN;
	return by_op(op, strcmp(a, b) != 0);
}

/* thread and watch, which are names and not values of the program. */
static bool compare_names(const struct trigger *t, const struct condition_node *n,
			  const struct view_access *a, enum truth *ret)
{
	bool first = trigger_means(t, n->a, MEANS_THREAD) || trigger_means(t, n->a, MEANS_HIT), known;
	size_t name = first ? n->a : n->b, with = first ? n->b : n->a;
	const struct value_number tid = { .kind = NUMBER_SIGNED, .i = a->raw->tid };
	struct seen s;

	if (trigger_means(t, name, MEANS_HIT)) {
		*ret = same_text(n->op, a->watch->e.name, t->tree.v[with].text);
		return true;
	}
	if (!trigger_means(t, name, MEANS_THREAD))
		return false;
	if (condition_is(&t->tree, with, CONDITION_TEXT)) {
		*ret = same_text(n->op, a->comm, t->tree.v[with].text);
		return true;
	}
	s = trigger_look(t, with, a);
	*ret = s.known ? by_op(n->op, order(&tid, &s.number, &known)) : UNKNOWN;
	return true;
}

static enum truth compare_seen(enum condition_op op, const struct seen *x, const struct seen *y)
{
	bool known;
	int o;

	if (!x->known || !y->known)
		return UNKNOWN;
	o = order(&x->number, &y->number, &known);
	if (!known)
		return op == CONDITION_NOT_EQUAL ? YES : NO;
	return by_op(op, o);
}

static enum truth trigger_compare(struct trigger *t, const struct condition_node *n,
				  const struct view_access *a)
{
	struct seen x, y;
	enum truth ret;

	if (compare_names(t, n, a, &ret))
		return ret;
	x = trigger_look(t, n->a, a);
	y = trigger_look(t, n->b, a);
	if (trigger_means(t, n->a, MEANS_ENUMERATOR))
		x = enumerator(t, t->tree.v[n->a].text, y.type);
	if (trigger_means(t, n->b, MEANS_ENUMERATOR))
		y = enumerator(t, t->tree.v[n->b].text, x.type);
	return compare_seen(n->op, &x, &y);
}

static struct seen end_of_range(struct trigger *t, size_t i, const struct view_access *a,
				const struct seen *x)
{
	return trigger_means(t, i, MEANS_ENUMERATOR) ? enumerator(t, t->tree.v[i].text, x->type)
						     : trigger_look(t, i, a);
}

static enum truth is_in_range(struct trigger *t, const struct condition_node *n, const struct view_access *a)
{
	struct seen x = trigger_look(t, n->a, a), low = end_of_range(t, n->b, a, &x),
		    high = end_of_range(t, n->c, a, &x);
	enum truth above = compare_seen(CONDITION_NOT_LESS, &x, &low),
		   below = compare_seen(CONDITION_NOT_GREATER, &x, &high);

	if (above == NO || below == NO)
		return n->negated ? YES : NO;
	if (above == UNKNOWN || below == UNKNOWN)
		return UNKNOWN;
	return n->negated ? NO : YES;
}

/* "f" and "obj::f" are names of "ns::obj::f(int)", and so are patterns of them. */
static bool function_is(const char *function, const char *pattern)
{
	char bare[512];
	const char *p;

	if (!fnmatch(pattern, function, 0))
		return true;
	for (p = bare_name(function, bare, sizeof(bare)); p; p = strstr(p, "::")) {
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
	const struct seen zero = of_signed(0);
	const struct condition_node *n = &t->tree.v[i];
	enum truth x, y;
	struct seen s;

	switch (n->kind) {
	case CONDITION_EITHER:
		x = trigger_holds(t, n->a, a);
		y = x == YES ? YES : trigger_holds(t, n->b, a);
		return x == YES || y == YES ? YES : x == NO && y == NO ? NO : UNKNOWN;
	case CONDITION_BOTH:
		x = trigger_holds(t, n->a, a);
		y = x == NO ? NO : trigger_holds(t, n->b, a);
		return x == NO || y == NO ? NO : x == YES && y == YES ? YES : UNKNOWN;
	case CONDITION_NOT:
		x = trigger_holds(t, n->a, a);
		return x == UNKNOWN ? UNKNOWN : x == YES ? NO : YES;
	case CONDITION_COMPARE:
		return trigger_compare(t, n, a);
	case CONDITION_IN:
		return is_in_range(t, n, a);
	case CONDITION_CALLER:
		return called_by(a, n->text);
	default:
		break;
	}
	if (trigger_means(t, i, MEANS_KIND))
		return of_kind(a, (enum access_kind)t->means[i].index);
	if (trigger_means(t, i, MEANS_KERNEL))
		return a->origin == ORIGIN_KERNEL ? YES : NO;
	s = trigger_look(t, i, a);
	x = compare_seen(CONDITION_NOT_EQUAL, &s, &zero);
	/* What is no number is not known to be one. */
	return x == YES && s.number.kind == NUMBER_FLOAT && s.number.f != s.number.f ? UNKNOWN : x;
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
	now = trigger_holds(t, t->tree.root, a) == YES;
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
