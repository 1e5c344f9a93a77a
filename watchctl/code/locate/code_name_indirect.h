/* code_name_indirect - functions chosen when the program starts (STT_GNU_IFUNC); private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_CODE_NAME_INDIRECT_H
#define WATCHCTL_CODE_LOCATE_CODE_NAME_INDIRECT_H

#include "watchctl/code/lookup/locate_find.h"

/*
 * Calls @each for the functions that @indirect may choose, as far as their names tell: glibc calls those of
 * memcpy
 * "__memcpy_avx_unaligned", GCC those of f "f.avx2". False as soon as @each returns false.
 */
bool code_indirect_each(const struct symbols *table, const char *indirect,
			bool (*each)(void *ctx, const struct symbol *implementation), void *ctx);

/*
 * The sentence for a name that means such a function, with the one that the process uses, if @mem (may be
 * NULL) shows.
 */
struct wc_error *code_indirect_error(struct search *s, const struct hit *h, const struct memory_view *mem);

#endif
