/* code_name_parse - the expression of locate_code() as text -> its parts; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_CODE_NAME_PARSE_H
#define WATCHCTL_CODE_LOCATE_CODE_NAME_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"

struct code_expr {
	bool is_raw; /* an address; the rest is empty */
	uint64_t addr;
	char *prefix[2]; /* as in struct locate_expr */
	size_t nprefixes;
	char *name;	   /* of a function; NULL: a line */
	unsigned int line; /* where name is NULL */
	bool has_offset;
	uint64_t offset; /* from the start of the function */
};

/* A malformed @text is a WC_EUSAGE error with the text and a caret under the place. */
struct wc_error *code_name_parse(const char *text, struct code_expr *ret);

/* Accepts zero-initialised. */
void code_expr_deinit(struct code_expr *e);

#endif
