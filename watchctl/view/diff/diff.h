/*
 * diff - what went differently in a bad run: two logs in, a result out, which diff_print.h turns into text,
 * JSON and HTML. Step logs are compared call by call; watch logs and tag logs as sequences (diff_marks.h).
 *
 * Differences are in the order of the bad run's time. Of several good runs, the one that the bad run agrees with the
 * longest is compared with it. What the others do differently from that is noise: it is learned as masks.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_H
#define WATCHCTL_VIEW_DIFF_DIFF_H

#include "watchctl/base/progress.h"
#include "watchctl/trace/redact.h"
#include "watchctl/view/diff/diff_compare.h"
#include "watchctl/view/diff/diff_detail.h"
#include "watchctl/view/diff/diff_marks.h"
#include "watchctl/view/diff/diff_parting.h"

struct diff_options {
	const char *const *good;
	size_t ngood; /* >= 1 */
	const char *bad;
	const char *const *ignore; /* masks */
	size_t nignore;
	const char *masks, *save_masks; /* files; NULL: none */
	const char *from, *to, *thread;
	double tolerance;
	bool by_name; /* other builds, or programs */
	bool anyway;  /* recorded in other ways */
	bool weak;
	struct redact_rules redact; /* values that are compared, but not shown */
	struct progress *progress;  /* begun and ended by the caller; NULL: nobody looks */
};

#define DIFF_BEFORE 5 /* calls that agreed before a difference are reported */

/* A difference that is reported in full. */
struct diff_story {
	struct diff_finding f;
	bool has_a, has_b;
	struct diff_detail a, b; /* of FINDING_CALLS and _THREAD, the first of the calls */
	struct diff_stack stack_a, stack_b;
	struct diff_detail before[DIFF_BEFORE]; /* of the bad run, the last one first */
	size_t nbefore;
	uint32_t ended;	 /* calls of the bad run that were over by then, of those that were looked at */
	uint32_t looked; /* at calls before it; with @ended, of no meaning unless nbefore is 0 */
	bool looked_at_all;
	bool in_handlers; /* they are calls of the thread's handlers of signals, not its others */
	bool is_input;	  /* it is one itself: what came in is what differs */
	bool has_input;
	struct diff_detail input_a, input_b; /* the nearest one before whose result differs */
	struct diff_parting parting;	     /* of the two first ones alone */
	bool unseen; /* of weak values: what differs is in which allocation a pointer leads to */
};

/* Differences of one function and kind. */
struct diff_group {
	const struct diff_function *function;
	enum finding_kind kind;
	bool only_in_a; /* FINDING_CALLS, _THREAD: the bad run has none; else the good one */
	bool is_signal;
	uint64_t count;
	char *what;   /* "len, *buf": the parameters that differ, or what is changed otherwise; NULL */
	size_t first; /* story */
	struct diff_finding f;
};

/* Where a thread of the bad run stood when its recording was given up. */
struct diff_stand {
	unsigned int number; /* of the pair of threads */
	const struct diff_thread *thread;
	int32_t syscall;	 /* -1: in none */
	struct diff_stack stack; /* the first is where it was, the others are return addresses */
};

/* What a comparison says about the runs. */
enum diff_verdict {
	DIFF_SAME,
	DIFF_DIFFERENT,
	DIFF_CANNOT_TELL, /* no difference was found, and a log does not show all of its run */
};

struct diff_result {
	struct diff_side *a, *b;
	struct diff_compare compare;
	struct diff_masks masks;
	struct diff_story value, control; /* the first ones */
	bool has_value, has_control;
	struct diff_input_result inputs;
	struct map64 input_noise; /* sources that good runs read differently: their identities */
	bool differs;
	uint64_t nvalues, ncontrols; /* differences */
	uint64_t unread;	     /* of them, those that were not looked into, because there are so many */
	struct diff_group *group;    /* in the order of their first difference */
	size_t ngroups, groups_cap;
	struct diff_stand *stand;
	size_t nstand, stand_cap;
	struct diff_marks marks; /* accesses and captures */
	char **note;		 /* sentences that the reader should know */
	size_t nnotes, notes_cap;
	bool incomparable; /* it was not compared: a doubt says why */
	char **doubt;	   /* phrases: why the runs may differ though no difference was found */
	size_t ndoubts, doubts_cap;
	uint64_t learned;  /* masks */
	uint64_t withheld; /* functions, watches and tags whose values a log lacks, and were not compared */
	bool all_withheld; /* of every function */
};

/*
 * WC_EFAIL: the logs cannot be compared (which says why, and what to do); WC_ELOG, WC_EUSAGE, WC_ENAME: as
 * those that read logs and masks, and compare threads, say.
 */
struct wc_error *diff_run(const struct diff_options *o, struct diff_result **ret);

enum diff_verdict diff_verdict(const struct diff_result *r);

/* Reads all about the first difference of the group. The caller has zeroed @ret, and deinits it. */
struct wc_error *diff_group_story(struct diff_result *r, const struct diff_group *g, struct diff_story *ret);

void diff_story_deinit(struct diff_story *s);

/* Accepts NULL. */
void diff_result_free(struct diff_result *r);
void diff_result_freep(struct diff_result **r);

#endif
