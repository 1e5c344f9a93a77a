#include "watchctl/engine/plan/filter_compiler.h"

#include <string.h>

static int64_t float_bits(double number, uint32_t size)
{
	float narrow = (float)number;
	int64_t bits = 0;

	if (size == 4)
		memcpy(&bits, &narrow, sizeof(narrow));
	else
		memcpy(&bits, &number, sizeof(number));
	return bits;
}

/* What @var can be. False: anything. */
static bool range_of(const struct compiler *c, const struct operand *var, int64_t *least, int64_t *most)
{
	bool is_signed = var->half || filter_is_signed(c);
	uint32_t bits = var->half ? 32 : c->type->bit_size ? c->type->bit_size : 8 * c->size;

	if (!(var->variable || var->half) || !bits || bits >= 64)
		return false;
	*least = is_signed ? -(int64_t)(1ull << (bits - 1)) : 0;
	*most = (int64_t)((1ull << (is_signed ? bits - 1 : bits)) - 1);
	return true;
}

/* A number that the type cannot hold would make the comparison always true or always false. */
static void check_range(struct compiler *c, const char *at, const struct operand *var,
			const struct operand *k)
{
	const char *what = c->type->name ? c->type->name : "its size";
	int64_t least, most;

	if (!k->constant || k->kind != OPERAND_INT || !range_of(c, var, &least, &most) ||
	    (k->value >= least && k->value <= most))
		return;
	filter_fail(c, at, "Type mismatch: the value is from %lld to %lld (%s), never %lld", (long long)least,
		    (long long)most, var->half ? "the lower half of a register, with its sign" : what,
		    (long long)k->value);
}

/* One side becomes the ordered integer of a float. */
static struct operand float_key(struct compiler *c, const char *at, const struct operand *o)
{
	double number = o->kind == OPERAND_FLOAT ? o->number : (double)o->value;

	if (o->constant && (o->kind == OPERAND_FLOAT || o->kind == OPERAND_INT))
		return filter_constant(filter_float_key((uint64_t)float_bits(number, c->size), c->size));
	if (o->kind != OPERAND_FLOAT)
		filter_fail(
			c, at,
			"Type mismatch: a floating-point value can be compared with numbers, old and new");
	return filter_result(filter_emit(c, FILTER_FLOAT_KEY, o->at, 0, c->size), OPERAND_INT);
}

/* A thread's name is compared with a text, its id with a number. Only equality makes sense. */
struct operand filter_compare_thread(struct compiler *c, const char *at, const struct operand *b,
				     bool equality)
{
	if (b->kind == OPERAND_TEXT && equality) {
		c->f->needs |= FILTER_NEEDS_NAME;
		return filter_result(filter_emit(c, FILTER_NAME_IS, 0, 0, b->value), OPERAND_TRUTH);
	}
	if (b->kind != OPERAND_INT || !equality) {
		filter_fail(c, at, "Type mismatch: a thread can be == or != an id or a \"name\"");
		return filter_constant(0);
	}
	c->f->needs |= FILTER_NEEDS_TID;
	return filter_result(
		filter_emit(c, FILTER_EQUAL, filter_emit(c, FILTER_TID, 0, 0, 0), filter_as_op(c, b), 0),
		OPERAND_TRUTH);
}

/* @code: EQUAL or LESS; of anything but floats that are no numbers, the others are made from them. */
struct operand filter_compare(struct compiler *c, const char *at, enum filter_op_code code, struct operand a,
			      struct operand b)
{
	bool has_nan = false;
	struct operand o, nan[2] = { a, b };

	if (filter_failed(c))
		return filter_constant(0);
	if (a.kind == OPERAND_THREAD || b.kind == OPERAND_THREAD)
		return filter_compare_thread(c, at, a.kind == OPERAND_THREAD ? &b : &a, code == FILTER_EQUAL);
	if (a.kind == OPERAND_TEXT || b.kind == OPERAND_TEXT) {
		filter_fail(c, at, "Type mismatch: a text can only be compared with thread");
		return filter_constant(0);
	}
	if (a.kind == OPERAND_FLOAT || b.kind == OPERAND_FLOAT) {
		if (c->type->kind != VALUE_FLOAT) {
			filter_fail(c, at, "Type mismatch: the variable is no floating-point number (%s)",
				    c->type->name ? c->type->name : "its type is not known");
			return filter_constant(0);
		}
		has_nan = true;
		a = float_key(c, at, &a);
		b = float_key(c, at, &b);
	} else {
		check_range(c, at, &a, &b);
		check_range(c, at, &b, &a);
	}
	if (code == FILTER_LESS && (a.wide || b.wide))
		code = FILTER_BELOW;
	o = a.constant && b.constant
		    ? filter_constant(filter_fold(code, a.value, b.value))
		    : filter_result(filter_emit(c, code, filter_as_op(c, &a), filter_as_op(c, &b), 0),
				    OPERAND_TRUTH);
	/* Nothing is equal to, or less than, what is no number. */
	for (int i = 0; has_nan && i < 2; i++)
		if (!nan[i].constant && nan[i].kind == OPERAND_FLOAT) {
			uint8_t is_nan = filter_emit(c, FILTER_FLOAT_NAN, nan[i].at, 0, c->size);

			o = filter_result(filter_emit(c, FILTER_BOTH, filter_as_op(c, &o),
						      filter_emit(c, FILTER_NOT, is_nan, 0, 0), 0),
					  OPERAND_TRUTH);
		}
	return o;
}

struct operand filter_negate(struct compiler *c, const struct operand *o)
{
	if (o->constant)
		return filter_constant(!o->value);
	return filter_result(filter_emit(c, FILTER_NOT, o->at, 0, 0), OPERAND_TRUTH);
}

struct operand filter_join(struct compiler *c, enum filter_op_code code, const struct operand *a,
			   const struct operand *b)
{
	if (filter_failed(c))
		return filter_constant(0);
	return filter_result(filter_emit(c, code, filter_as_op(c, a), filter_as_op(c, b), 0), OPERAND_TRUTH);
}
