/* locate_parse - the expression of locate() as text -> its parts; private to stackwalk/. */
#ifndef STACKWALK_LOCATE_PARSE_H
#define STACKWALK_LOCATE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

enum locate_op {
	LOCATE_MEMBER, /* .name */
	LOCATE_ARROW,  /* ->name */
	LOCATE_INDEX,  /* [index] */
	LOCATE_DEREF,  /* *path */
};

struct locate_step {
	enum locate_op op;
	char *name; /* MEMBER and ARROW */
	int64_t index;
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

/* The single ':' that ends a prefix beginning at @s; NULL: there is none. */
const char *locate_prefix_end(const char *s);

#endif
