/* Steps and their operands: what is constant is calculated while it is parsed. */
#include <stdlib.h>
#include <string.h>

#include "watchctl/base/cleanup.h"
#include "watchctl/base/error.h"
#include "watchctl/base/vec.h"
#include "watchctl/code/lookup/locate_parser.h"

/* Steps */

static void step_deinit(struct locate_step *s)
{
	for (unsigned int i = 0; s->operand && i < s->nindices; i++) {
		if (s->operand[i])
			locate_expr_deinit(s->operand[i]);
		free(s->operand[i]);
	}
	free(s->operand);
	free(s->name);
	free(s->index);
}

bool locate_calculate(enum locate_op op, int64_t a, int64_t b, int64_t *ret)
{
	switch (op) {
	case LOCATE_ADD:
		return !__builtin_add_overflow(a, b, ret);
	case LOCATE_SUB:
		return !__builtin_sub_overflow(a, b, ret);
	case LOCATE_MUL:
		return !__builtin_mul_overflow(a, b, ret);
	case LOCATE_DIV:
		if (!b || (a == INT64_MIN && b == -1))
			return false;
		*ret = a / b;
		return true;
	case LOCATE_NEGATE:
		return !__builtin_sub_overflow(0, a, ret);
	default:
		return false;
	}
}

/* Of a step on a number; false: it is none that can be calculated yet. */
static bool fold(struct parser *p, const struct locate_step *s)
{
	struct locate_expr *e = p->expr;

	if (!e->is_number || e->nsteps || s->operand || s->op < LOCATE_ADD)
		return false;
	return locate_calculate(s->op, e->number, s->index ? s->index[0] : 0, &e->number);
}

struct wc_error *parser_add_step(struct parser *p, struct locate_step step)
{
	struct locate_expr *e = p->expr;

	if (fold(p, &step)) {
		step_deinit(&step);
		return NULL;
	}
	if (vec_push(e->step, e->nsteps, e->step_cap, step))
		return NULL;
	step_deinit(&step);
	return &wc_enomem;
}

/* Operands */

void parser_operands_deinit(struct operands *o)
{
	for (unsigned int i = 0; i < o->n; i++) {
		if (o->expr[i])
			locate_expr_deinit(o->expr[i]);
		free(o->expr[i]);
	}
}

struct wc_error *parser_operand(struct parser *p, struct wc_error *(*rule)(struct parser *p),
				struct operands *o)
{
	scoped(locate_expr_deinit) struct locate_expr e = { 0 };
	struct parser in = { p->text, p->at, &e, p->depth + 1, true };
	struct wc_error *err;

	parser_skip_space(&in);
	err = in.depth > PARSER_DEPTH ? expected(&in, "fewer nested expressions") : rule(&in);
	p->at = in.at;
	if (err)
		return err;
	o->index[o->n] = e.number;
	o->expr[o->n] = NULL;
	if (!e.is_number || e.nsteps) {
		o->expr[o->n] = malloc(sizeof(e));
		if (!o->expr[o->n])
			return &wc_enomem;
		*o->expr[o->n] = e;
		e = (struct locate_expr){ 0 };
	}
	o->n++;
	parser_skip_space(p);
	return NULL;
}

struct wc_error *parser_add_operands(struct parser *p, struct locate_step step, struct operands *o)
{
	bool constant = true;

	for (unsigned int i = 0; i < o->n; i++)
		constant &= !o->expr[i];
	step.nindices = o->n;
	step.index = calloc(o->n ? o->n : 1, sizeof(*step.index));
	step.operand = constant ? NULL : calloc(o->n, sizeof(struct locate_expr *));
	if (!step.index || (!constant && !step.operand)) {
		free(step.index);
		free(step.operand);
		return &wc_enomem;
	}
	memcpy(step.index, o->index, o->n * sizeof(*step.index));
	if (!constant)
		memcpy(step.operand, o->expr, o->n * sizeof(struct locate_expr *));
	o->n = 0;
	return parser_add_step(p, step);
}

/* "3 + x" is "x + 3": what x is may be moved by a number, and a number by nothing but a number. */
static struct wc_error *swap(struct parser *p, struct operands *o)
{
	struct locate_expr *e = p->expr, *other = o->expr[0];

	o->index[0] = e->number;
	o->expr[0] = NULL;
	*e = *other;
	free(other);
	return parser_add_operands(p, (struct locate_step){ .op = LOCATE_ADD }, o);
}

static bool is_swapped(const struct parser *p, enum locate_op op, const struct operands *o)
{
	const struct locate_expr *e = p->expr;

	return op == LOCATE_ADD && e->is_number && !e->nsteps && !e->nprefixes && o->expr[0];
}

struct wc_error *parser_add_right_side(struct parser *p, enum locate_op op, struct operands *o)
{
	if (is_swapped(p, op, o))
		return swap(p, o);
	return parser_add_operands(p, (struct locate_step){ .op = op }, o);
}

void locate_expr_deinit(struct locate_expr *e)
{
	for (size_t i = 0; i < e->nsteps; i++)
		step_deinit(&e->step[i]);
	free(e->step);
	free(e->prefix[0]);
	free(e->prefix[1]);
	free(e->base);
	if (e->sized)
		locate_expr_deinit(e->sized);
	free(e->sized);
	*e = (struct locate_expr){ 0 };
}
