/*
 * diff_parting - where in the code two runs part: from the last thing that both did in a function, its entry or the
 * return of a call, to the first that they did differently. Of control: the branches that decide. Of values: the
 * inlined functions whose code lies between.
 *
 * From the files of the modules, if they are still those that ran; without them there is nothing to say.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_PARTING_H
#define WATCHCTL_VIEW_DIFF_DIFF_PARTING_H

#include "watchctl/view/diff/diff_compare.h"

#define PARTING_BRANCHES 4u
#define PARTING_INLINED 4u

/* A function without a call of its own. Strings are those of the side's symbolizer. */
struct diff_inlined {
	const char *function, *file; /* file may be NULL */
	unsigned int line; /* the first of its lines between, as they come in the code; 0: not known */
};

/* Zero-initialised says nothing. */
struct diff_parting {
	bool in_good; /* the addresses are of the good run; else of the bad one */
	uint64_t branch[PARTING_BRANCHES];
	size_t nbranches;
	uint64_t more; /* branches that are not in the list */
	struct diff_inlined inlined[PARTING_INLINED];
	size_t ninlined; /* 0 also if there are more than that */
};

/* @f is of @c. Fails for lack of memory and WC_ELOG. @ret need not be initialised. */
struct wc_error *diff_parting_find(const struct diff_compare *c, const struct diff_finding *f,
				   struct diff_parting *ret);

#endif
