/* diff_inputs_impl - what the parts of diff_inputs share. */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_INPUTS_IMPL_H
#define WATCHCTL_VIEW_DIFF_DIFF_INPUTS_IMPL_H

#include "watchctl/view/diff/inputs/diff_inputs.h"

/* diff_inputs_pair.c: what was changed, and which sources belong together. False: no memory. */

bool diff_inputs_start(const struct diff_inputs *a, const struct diff_inputs *b, struct diff_input_result *r);
bool diff_inputs_identify(struct diff_inputs *in, const struct diff_input_result *r, bool is_a);
/* NULL: there is none that has no mate yet. */
struct diff_source *diff_inputs_mate(struct diff_inputs *in, const struct diff_source *s);
struct diff_source *diff_inputs_likely_mate(struct diff_inputs *in, const struct diff_source *s);

/* diff_inputs_bytes.c: two sources. True: they differ, and @d says where. */
bool diff_inputs_source(const struct diff_source *a, const struct diff_source *b,
			struct diff_input_difference *d, uint64_t *unseen);

#endif
