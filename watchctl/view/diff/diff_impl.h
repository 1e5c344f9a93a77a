/* diff_impl - what the parts of diff share. Inside of diff*.c. */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_IMPL_H
#define WATCHCTL_VIEW_DIFF_DIFF_IMPL_H

#include "watchctl/view/diff/diff.h"

#define LOOK_MAX 200000u /* findings about values that are looked into */

/* diff.c */

struct wc_error *diff_load_sides(const struct diff_options *o, const char *good, const char *bad,
				 struct diff_masks *masks, struct diff_side **a, struct diff_side **b);
/* r->a and r->b are loaded: fills in what was found. */
struct wc_error *diff_compare_sides(struct diff_result *r, const struct diff_options *o);
void diff_result_clear(struct diff_result *r);
/* False: no memory. */
bool diff_note(struct diff_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* "a, b" has "b". */
bool diff_list_has(const char *list, const char *one);

/* diff_story.c */
struct wc_error *diff_story_read(struct diff_result *r, const struct diff_finding *f, struct diff_story *ret);

/* diff_check.c: whether the logs can be compared, and what a reader should know about them */
struct wc_error *diff_check_sides(struct diff_result *r, const struct diff_options *o);

/* diff_doubt.c: why agreement would prove nothing. After the comparison. */
struct wc_error *diff_doubt_sides(struct diff_result *r);
/* One more reason; false: no memory. */
bool diff_doubt(struct diff_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* No call, access or capture. */
bool diff_side_is_empty(const struct diff_side *s);

/* diff_learn.c: masks from what the good runs do differently */
struct wc_error *diff_learn(struct diff_result *r, const struct diff_options *o);
/*
 * @ret: o->good, of several the one first that the bad run agrees with the longest: what differs from it differs the
 * latest. The others teach what is noise.
 */
struct wc_error *diff_choose_reference(struct diff_result *r, const struct diff_options *o, const char **ret);

#endif
