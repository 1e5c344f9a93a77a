/* locate_parser - what the files of the expression parser share; private to them. */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_PARSER_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_PARSER_H

#include "watchctl/code/lookup/locate_parse.h"

#define PARSER_DEPTH 64

struct parser {
	const char *text, *at;
	struct locate_expr *expr;
	unsigned int depth;
	bool inner; /* in an operand, or in brackets: "/" divides, and is no part of a name */
};

#define expected(p, ...) locate_expected((p)->text, (p)->at, __VA_ARGS__)

void parser_skip_space(struct parser *p);

bool parser_starts_name(const char *s);
bool parser_continues_word(char ch);

/* Goes behind a qualified name. */
struct wc_error *parser_take_name(struct parser *p);

/* Takes what @step has. Constants are calculated at once. */
struct wc_error *parser_add_step(struct parser *p, struct locate_step step);

/* The operands of one step; zero-initialised. An expression is NULL where @index has its value. */
struct operands {
	int64_t index[LOCATE_INDICES];
	struct locate_expr *expr[LOCATE_INDICES];
	unsigned int n;
};

void parser_operands_deinit(struct operands *o);

/* Parses one more with @rule. */
struct wc_error *parser_operand(struct parser *p, struct wc_error *(*rule)(struct parser *p),
				struct operands *o);

/* Adds @step with the operands @o, which it takes. */
struct wc_error *parser_add_operands(struct parser *p, struct locate_step step, struct operands *o);

/* The same of an operator with one. */
struct wc_error *parser_add_right_side(struct parser *p, enum locate_op op, struct operands *o);

/* What binds tighter than any operator of two operands. */
struct wc_error *parser_unary(struct parser *p);

/* A type as a person writes it: "struct conn **". */
struct type_text {
	char *name; /* without qualifiers; "struct" and the like stay */
	unsigned int stars;
	bool is_reference;
};

/*
 * Whether the '(' at @s opens a cast, "(struct conn *)p", and not an expression. What could be both is an
 * expression.
 */
bool parser_is_cast(const char *s);

/* Whether the text in the brackets at @s can only be a type. */
bool parser_is_type(const char *s);

/* Takes "(type)", from the bracket on. */
struct wc_error *parser_take_type(struct parser *p, struct type_text *ret);

#endif
