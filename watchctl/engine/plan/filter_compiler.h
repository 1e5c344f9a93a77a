/*
 * filter_compiler - what the two halves of the compiler share: filter.c compiles the tree of a condition, filter_compare.c
 * makes comparisons of values of all types.
 */
#ifndef WATCHCTL_ENGINE_PLAN_FILTER_COMPILER_H
#define WATCHCTL_ENGINE_PLAN_FILTER_COMPILER_H

#include "watchctl/base/condition.h"
#include "watchctl/engine/plan/filter.h"

enum operand_kind { OPERAND_INT, OPERAND_FLOAT, OPERAND_THREAD, OPERAND_TEXT, OPERAND_TRUTH };

/* A value while the program is built: constants have no operation until they are needed as one. */
struct operand {
	enum operand_kind kind;
	bool constant;
	bool variable; /* old or new itself, nothing added */
	bool half;     /* the lower half of a register itself, nothing added */
	bool wide;     /* unsigned, of 8 bytes: compared as such */
	uint8_t at;    /* the operation, unless constant */
	int64_t value; /* of a constant; index of a text */
	double number; /* of a constant float */
};

struct compiler {
	const struct condition *tree; /* that is compiled just now */
	const char *at;
	const struct filter_spec *spec;
	const struct value_type *type;
	uint32_t size;
	struct wire_filter *f;
	unsigned int names;
	int8_t loaded[2]; /* the operation that holds old, new; -1: none yet */
	struct wc_error *err;
};

static inline bool filter_failed(const struct compiler *c)
{
	return c->err != NULL;
}

static inline struct operand filter_result(uint8_t at, enum operand_kind kind)
{
	return (struct operand){ .kind = kind, .at = at };
}

static inline struct operand filter_constant(int64_t value)
{
	return (struct operand){ .kind = OPERAND_INT, .constant = true, .value = value };
}

/* Keeps the first error: "<sentence>, at column N of the condition", with a caret. */
void filter_fail(struct compiler *c, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Returns the operation's index. */
uint8_t filter_emit(struct compiler *c, enum filter_op_code code, uint8_t a, uint8_t b, int64_t imm);

/* The operation that yields @o: a constant becomes one. */
uint8_t filter_as_op(struct compiler *c, const struct operand *o);

bool filter_is_signed(const struct compiler *c);

/* What the operation makes of two constants. */
int64_t filter_fold(enum filter_op_code code, int64_t a, int64_t b);

/* @code: FILTER_EQUAL or FILTER_LESS. @at: the operator, for errors. */
struct operand filter_compare(struct compiler *c, const char *at, enum filter_op_code code, struct operand a,
			      struct operand b);

/* The thread is the one whose name, or id, @b is. */
struct operand filter_compare_thread(struct compiler *c, const char *at, const struct operand *b,
				     bool equality);

struct operand filter_negate(struct compiler *c, const struct operand *o);
struct operand filter_join(struct compiler *c, enum filter_op_code code, const struct operand *a,
			   const struct operand *b);

#endif
