/* locate_parse - the expression of locate() as text -> its parts; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_PARSE_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

/*
 * An expression is a variable or a number, and steps that apply to it in turn: "*p->q[i]" is p, "->q", "[i]",
 * "*". What stands to the right of an operator, and every index, is an expression of its own: an operand.
 * Operands that are constants are numbers already when the parser is done.
 */
enum locate_op {
	LOCATE_MEMBER,	/* .name, and Fortran's %name */
	LOCATE_ARROW,	/* ->name */
	LOCATE_INDEX,	/* [index], and with round brackets, and several of them */
	LOCATE_DEREF,	/* *path, and Pascal's path^ */
	LOCATE_ADDRESS, /* &path */
	LOCATE_CAST,	/* (name *...)path */
	LOCATE_SLICE,	/* path@number */
	LOCATE_ADD,	/* path+number, and the others of arithmetic */
	LOCATE_SUB,
	LOCATE_MUL,
	LOCATE_DIV,
	LOCATE_NEGATE,
};

/* Fortran has no array with more. */
#define LOCATE_INDICES 15

struct locate_expr;

struct locate_step {
	enum locate_op op;
	char *name;	/* MEMBER and ARROW; the type of CAST, perhaps with "struct" before it */
	int64_t *index; /* INDEX: so many as there are; SLICE, ADD, SUB, MUL, DIV: one */
	unsigned int nindices;
	/* So many as indices: what an index is that is no constant, else NULL. NULL: all are constants. */
	struct locate_expr **operand;
	unsigned int stars; /* CAST: pointers to the type */
	bool round;	    /* INDEX: written "(1,2)" */
	bool behind;	    /* DEREF: written "path^" */
};

struct locate_expr {
	bool is_raw; /* an address; the rest is empty */
	uint64_t addr, size;
	/* "file:", "module:" or "module:file:"; NULL: not given */
	char *prefix[2];
	size_t nprefixes;
	/* One of these three: */
	char *base;		   /* the variable, perhaps qualified, without a leading "::" */
	bool is_quoted;		   /* @base was in quotes: no member that follows is a part of it */
	bool is_number;		   /* @number */
	struct locate_expr *sized; /* sizeof of it */
	int64_t number;
	bool is_type; /* inside sizeof: @base is a type's name, and there are @stars behind it */
	unsigned int stars;
	struct locate_step *step; /* in the order in which they apply */
	size_t nsteps, step_cap;
};

/* A malformed @text is a WC_EUSAGE error with the text and a caret under the place. */
struct wc_error *locate_parse(const char *text, struct locate_expr *ret);

/* What an operator of arithmetic makes of @a and @b; false: no number of 64 bits, or a division by 0. */
bool locate_calculate(enum locate_op op, int64_t a, int64_t b, int64_t *ret);

/* Accepts zero-initialised. */
void locate_expr_deinit(struct locate_expr *e);

/* A WC_EUSAGE error: "Expected <what> at column N of the expression:", with @text and a caret below @at in
 * it. */
struct wc_error *locate_expected(const char *text, const char *at, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Past the bracket that closes the one at @s; NULL: none does. */
const char *locate_skip_balanced(const char *s);

/*
 * A prefix is written in quotes ('a:b.c':flag) where it would be read as something else without them; in them
 * a backslash makes any character itself. malloc'd; NULL: no memory.
 */
char *locate_quote_prefix(const char *prefix);
char *locate_unquote_prefix(const char *at, const char *end);

/* The name of a type as a cast has it: in quotes where it needs them, behind "struct ". NULL: no memory. */
char *locate_quote_type(const char *name);

/*
 * Takes the prefixes from *@at on, at most two of them with those that are there, and goes on behind them.
 * What is in quotes without a colon behind is left: locate_check_quote() is an error for it.
 */
struct wc_error *locate_parse_prefixes(const char *text, const char **at, char *prefix[2], size_t *n);
struct wc_error *locate_check_quote(const char *text, const char *at);

/* Takes the one that ends at @end. */
struct wc_error *locate_parse_prefix(const char *text, const char **at, const char *end, char *prefix[2],
				     size_t *n);

/* The ':' that ends a prefix beginning at @s, or the "::" of "file.c::"; NULL: there is none. */
const char *locate_prefix_end(const char *s);

/* The same for "file.c::" and "'file.c'::" alone. */
const char *locate_scope_end(const char *s);

/* The next longer end of @path, after @end or NULL: "c.c", "b/c.c", "a/b/c.c". NULL: @end is all of it. */
const char *locate_longer_end(const char *path, const char *end);

bool locate_is_quote(char c);

/* Behind the quote that ends the text which the one at @s begins; NULL: there is none. */
const char *locate_skip_quoted(const char *s);

#endif
