/* locate_walk - from an expression to the place that it means; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOCATE_LOCATE_WALK_H
#define WATCHCTL_CODE_LOCATE_LOCATE_WALK_H

#include "watchctl/code/locate/locate_path.h"
#include "watchctl/code/lookup/locate_find.h"
#include "watchctl/code/lookup/locate_parse.h"

/* One variable or function in @s->hit, of which the first *@used steps are a part. */
struct wc_error *locate_find_one(struct search *s, const struct locate_expr *e, const struct memory_view *mem,
				 size_t *used, bool *missing_module);

/*
 * Follows the steps of @e from @from on, beginning at @s->hit[0], or at the number that @e begins with. What
 * its operands are is read on the way. p->text is the caller's to free, in any case.
 */
struct wc_error *locate_walk(struct search *s, struct locate_expr *e, size_t from,
			     const struct memory_view *mem, struct path_place *p);

#endif
