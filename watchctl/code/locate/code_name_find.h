/* code_name_find - which function of which module a name means; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_CODE_NAME_FIND_H
#define WATCHCTL_CODE_LOCATE_CODE_NAME_FIND_H

#include "watchctl/code/lookup/locate_find.h"

/*
 * Fills in the hits with functions: where they begin. Name, module and source are set by the caller. Parts
 * and clones are hits only where there is no whole function.
 */
struct wc_error *code_name_find(struct search *s);

/* All of them in all modules, parts and clones too. */
struct wc_error *code_name_find_all(struct search *s);

/* The sentence for a function that was inlined everywhere; NULL: there is none. */
struct wc_error *code_name_inlined_error(struct search *s);

#endif
