/* diff_detail - all about one call, read from the log again; and what differs in two of them. */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_DETAIL_H
#define WATCHCTL_VIEW_DIFF_DIFF_DETAIL_H

#include "watchctl/view/diff/diff_changes.h"
#include "watchctl/view/diff/diff_compare.h"
#include "watchctl/view/event/view.h"

struct diff_value {
	const char *name;	      /* NULL: not known; "return" of the result */
	const struct diff_type *type; /* NULL: not reported */
	struct call_value v;
	char *text; /* made by diff_detail_texts(); else NULL */
	bool masked, to_masked;
	bool unused; /* a result that nobody reads: it is not compared */
	bool differs, to_differs;
	bool to_unset;	    /* it differs in what may never have been written: no difference */
	const char *member; /* of the first one that differs; NULL */
};

struct diff_detail {
	struct diff_side *side;
	struct diff_thread *thread;
	uint32_t index;
	const struct diff_function *function;
	bool is_signal;	 /* no call: it has a time, and where it came */
	uint64_t ip;	 /* is_signal */
	uint64_t number; /* call_event.call */
	uint64_t
		site; /* the return address in the call that made it; 0: made by way of others, or not known */
	bool is_tail; /* the call that made it has jumped to it */
	uint64_t time_ns, end_ns;
	enum return_how how; /* 0: the log does not say how it ended */
	bool has_error;
	int32_t error;
	bool how_differs, error_differs;
	uint32_t nparams;
	struct diff_value *param;
	bool has_result;
	struct diff_value result;
	struct diff_changes changes;
	bool changes_differ;
	uint8_t *bytes, *result_bytes; /* what values point into */
};

/* Fails for lack of memory and WC_ELOG: the log has changed since it was read. @ret need not be initialised.
 */
struct wc_error *diff_detail_read(struct diff_side *s, struct diff_thread *t, uint32_t index,
				  struct diff_detail *ret);

/* What is compared beyond equality. */
struct diff_closeness {
	double tolerance; /* of floating point numbers, relative */
	bool all;	  /* weak values and masked ones, too, but for addresses */
};

/* The first token by which lists do not say the same; NULL: they do. */
const struct diff_token *diff_tokens_differ(const struct diff_tokens *a, const struct diff_tokens *b,
					    const struct diff_closeness *c);

/*
 * Marks what differs in calls of one function. *@params, *@result: there is something (an end of another kind
 * is not among it). False: no memory.
 */
bool diff_detail_compare(struct diff_detail *a, struct diff_detail *b, const struct diff_closeness *c,
			 bool *params, bool *result);

/* Fills in all texts. False: no memory. */
bool diff_detail_texts(struct diff_detail *d);

/* The return addresses of a whole stack, a call's own first; of a signal, the first address is where it came. */
struct diff_stack {
	uint64_t *v;
	size_t n, cap;
	uint32_t *
		function; /* of compact calls, in place of addresses: the side's functions around the call's */
	size_t nfunctions, functions_cap;
	enum walk_end end; /* why there are no more */
};

/* @ret need not be initialised. */
struct wc_error *diff_detail_stack(const struct diff_detail *d, struct diff_stack *ret);
void diff_stack_deinit(struct diff_stack *k);

void diff_detail_deinit(struct diff_detail *d); /* accepts zero-initialised */

#endif
