/* diff_pairs - which threads of two logs belong together. Inside of diff_compare. */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_PAIRS_H
#define WATCHCTL_VIEW_DIFF_DIFF_PAIRS_H

#include "watchctl/view/diff/diff_compare.h"

/*
 * Fills c->pair: each thread is followed by its signals. First those that were created at the same place and
 * did the same; then by their numbers among those created there, then by where they begin; a thread without a
 * partner is alone. False: no memory.
 */
bool diff_pair_threads(struct diff_compare *c);

#endif
