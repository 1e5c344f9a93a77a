/* code_name_line - the code of a source line; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_CODE_NAME_LINE_H
#define WATCHCTL_CODE_LOCATE_CODE_NAME_LINE_H

#include "watchctl/code/lookup/locate_find.h"

/*
 * Finds where line @line of the source file of @s begins, in the program or else in other modules. Several
 * places (it was inlined, or compiled more than once) are an error that lists them. *@ret is a runtime
 * address.
 */
struct wc_error *code_name_line(struct search *s, unsigned int line, const struct module **module,
				uint64_t *ret, bool *missing_module);

#endif
