/*
 * diff_compare - two sides, call by call: which belong together, and where they go apart. Cheap facts only;
 * what exactly differs in a call is found out by diff_detail, which reads it again.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_COMPARE_H
#define WATCHCTL_VIEW_DIFF_DIFF_COMPARE_H

#include "watchctl/view/diff/diff_side.h"

enum finding_kind {
	FINDING_PARAMS, /* a and b are calls of one function; their parameters seem to differ */
	FINDING_RESULT, /* ... their results */
	FINDING_ENDED,	/* ... one returned, the other did not, or in another way */
	FINDING_CALLS,	/* na calls of a and nb of b stand where the other side has none of their kind */
	FINDING_THREAD, /* a thread that the other side does not have: its calls are a, or b */
};

struct diff_finding {
	enum finding_kind kind;
	uint32_t pair; /* of threads */
	uint32_t a, b; /* the (first) call; NO_CALL */
	uint32_t na,
		nb; /* FINDING_CALLS, _THREAD: how many, one after the other, not counting what they call */
	uint32_t in_a, in_b; /* FINDING_CALLS: the calls that they were made from; NO_CALL: none */
	uint64_t when;	     /* position in b's log */
};

/* n calls, one after the other, with the same place in both trees. */
struct diff_run {
	uint32_t a, b, n;
};

struct diff_threads {
	struct diff_thread *a, *b; /* one of them may be NULL */
	struct diff_run *run;	   /* in the order of b, and of a */
	size_t nrun, run_cap;
	bool left_out; /* the user wants another thread */
};

#define FINDINGS_MAX (1u << 20)

struct diff_compare {
	struct diff_side *a, *b;
	struct diff_threads *pair;
	size_t npairs, pairs_cap;
	struct diff_finding *v; /* in the order of b's time */
	size_t n, cap;
	uint64_t dropped;	 /* findings beyond FINDINGS_MAX */
	uint64_t agreed;	 /* calls of b that are as in a, or so it seems */
	uint64_t weak;		 /* subtrees that are equal but for weak values */
	uint64_t only_a, only_b; /* calls without a mate */
};

struct progress;

/*
 * @thread: only the threads that are called so, by number (1.. in the order of pairs), or name; NULL: all.
 * @progress: told how far it is; NULL: nobody looks.
 */
struct wc_error *diff_compare_run(struct diff_compare *c, struct diff_side *a, struct diff_side *b,
				  const char *thread, struct progress *progress);

/* The call of a that belongs to @b of the pair; NO_CALL: none does. */
uint32_t diff_mate_of(const struct diff_threads *p, uint32_t b);

/* ... of b that belongs to @a. */
uint32_t diff_mate_of_a(const struct diff_threads *p, uint32_t a);

/* What users call the pair: its number, from 1. */
static inline unsigned int diff_pair_number(uint32_t pair)
{
	return pair / 2 + 1;
}

void diff_compare_deinit(struct diff_compare *c);

#endif
