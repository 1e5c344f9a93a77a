/* locate_parse - the expression of locate() as text -> its parts; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_PARSE_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

enum locate_op {
	LOCATE_MEMBER, /* .name, and Fortran's %name */
	LOCATE_ARROW,  /* ->name */
	LOCATE_INDEX,  /* [index], and with round brackets, and several of them */
	LOCATE_DEREF,  /* *path, and Pascal's path^ */
};

/* Fortran has no array with more. */
#define LOCATE_INDICES 15

struct locate_step {
	enum locate_op op;
	char *name;	/* MEMBER and ARROW */
	int64_t *index; /* INDEX: so many as there are */
	unsigned int nindices;
	bool round;  /* INDEX: written "(1,2)" */
	bool behind; /* DEREF: written "path^" */
};

struct locate_expr {
	bool is_raw; /* an address; the rest is empty */
	uint64_t addr, size;
	/* "file:", "module:" or "module:file:"; NULL: not given */
	char *prefix[2];
	size_t nprefixes;
	char *base;		  /* the variable, perhaps qualified, without a leading "::" */
	struct locate_step *step; /* in the order in which they apply */
	size_t nsteps, step_cap;
};

/* A malformed @text is a WC_EUSAGE error with the text and a caret under the place. */
struct wc_error *locate_parse(const char *text, struct locate_expr *ret);

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

/* Takes the prefixes from *@at on, at most two of them with those that are there, and goes on behind them. */
struct wc_error *locate_parse_prefixes(const char *text, const char **at, char *prefix[2], size_t *n);

/* The single ':' that ends a prefix beginning at @s; NULL: there is none. */
const char *locate_prefix_end(const char *s);

#endif
