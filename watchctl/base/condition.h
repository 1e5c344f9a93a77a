/*
 * condition - the language of --if and --trigger, as a tree. What its words stand for, and what of it can be evaluated where,
 * is for those who compile the tree: engine/plan/filter.c for the place of the hit, view/trigger for recorded accesses.
 *
 *	condition  = both { ( "||" | "or" ) both }
 *	both	   = not { ( "&&" | "and" ) not }
 *	not	   = "!" ( not | value ) | compared
 *	compared   = sum [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) sum | [ "not" ] "in" sum ".." sum ]
 *	sum, ...   = with the operators | ^ & << >> + - * / % and unary -, in C's order among themselves; all of them bind
 *		     tighter than a comparison
 *	value	   = number | 'c' | "text" | word | "{" name "}" | "$" register | "caller" function | "(" condition ")"
 *	word	   = "new", "ns::obj.member", "table[3]->next"
 *	function   = up to a space or one of ()&|!, or a "text"
 */
#ifndef WATCHCTL_BASE_CONDITION_H
#define WATCHCTL_BASE_CONDITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

enum condition_kind {
	CONDITION_EITHER, /* a, b */
	CONDITION_BOTH,
	CONDITION_NOT,	     /* a */
	CONDITION_COMPARE,   /* op, a, b */
	CONDITION_IN,	     /* a in b..c; @negated */
	CONDITION_CALCULATE, /* op, a, b */
	CONDITION_MINUS,     /* a */
	CONDITION_CALLER,    /* text */
	CONDITION_INTEGER,   /* integer, which has 64 bits, and may be an unsigned one */
	CONDITION_FLOAT,     /* number */
	CONDITION_CHARACTER, /* integer: 0 to 255 */
	CONDITION_TEXT,	     /* text */
	CONDITION_WORD,	     /* text */
	CONDITION_NAME,	     /* text, which stood in braces */
	CONDITION_REGISTER,  /* text, without the $ */
};

enum condition_op {
	CONDITION_EQUAL,
	CONDITION_NOT_EQUAL,
	CONDITION_NOT_GREATER,
	CONDITION_NOT_LESS,
	CONDITION_LESS,
	CONDITION_GREATER,
	CONDITION_OR,
	CONDITION_XOR,
	CONDITION_AND,
	CONDITION_LEFT,
	CONDITION_RIGHT,
	CONDITION_ADD,
	CONDITION_SUB,
	CONDITION_MUL,
	CONDITION_DIV,
	CONDITION_MOD,
};

struct condition_node {
	enum condition_kind kind;
	enum condition_op op;
	size_t a, b, c;		/* operands: places in the tree, each before this node's own */
	const char *at, *start; /* of the operator, or the value; and of all of it. In condition.text */
	bool negated;
	int64_t integer;
	double number;
	char *text; /* owned */
};

struct condition {
	char *text;
	const char *what; /* what errors call it: "condition" */
	struct condition_node *v;
	size_t n, cap, root;
};

/* Names that come before the grammar's own words: of watches that are called "caller". */
struct condition_names {
	bool (*is_name)(void *ctx, const char *start, size_t len); /* NULL: there are none */
	void *ctx;
};

/* WC_EUSAGE: malformed, or nested deeper than 32; as condition_error() says it. *ret: condition_deinit(). */
struct wc_error *condition_parse(const char *text, const char *what, const struct condition_names *names,
				 struct condition *ret);
void condition_deinit(struct condition *c);

/* "<sentence>, at column N of the <what>:", the text, and a caret below @at. */
struct wc_error *condition_error(const struct condition *c, enum wc_kind kind, const char *at,
				 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

static inline bool condition_is(const struct condition *c, size_t i, enum condition_kind kind)
{
	return c->v[i].kind == kind;
}

#endif
