/* diff_words - what the printers of a diff say, as clean texts. */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_WORDS_H
#define WATCHCTL_VIEW_DIFF_DIFF_WORDS_H

#include "watchctl/view/diff/diff.h"

#define WORDS_MAX 5200

/* "malloc(size = 24) = NULL, ENOMEM". */
void diff_call_text(const struct diff_detail *d, char *buf, size_t cap);

/* "NULL, ENOMEM", "left by an exception", "never returned". */
void diff_result_text(const struct diff_detail *d, char *buf, size_t cap);

/* The text of a value, or why there is none; it says so if what differs may never have been written. */
void diff_value_text(const struct diff_value *v, char *buf, size_t cap);

/* What is different, as a sentence without a full stop. */
void diff_headline(const struct diff_result *r, const struct diff_story *s, char *buf, size_t cap);

/* "malloc: another result", of all differences of a group. */
void diff_group_text(const struct diff_group *g, char *buf, size_t cap);

/* A word for programs: "params", "result", "ended", "calls", "thread". */
const char *diff_kind_name(enum finding_kind kind);

/*
 * When the difference shows: nanoseconds since the bad run's log begins; *@in_good: since the good run's, where that
 * alone has a call. False: neither has one.
 */
bool diff_time_of(const struct diff_result *r, const struct diff_story *s, bool *in_good, uint64_t *ns);

/* "in thread 2 (worker) of the bad run, 0.120000 s after its recording began" */
void diff_place_text(const struct diff_result *r, const struct diff_story *s, char *buf, size_t cap);

/* Why no call is shown that agreed before; "": there are some, or the thread exists in one run only. */
void diff_no_before_text(const struct diff_result *r, const struct diff_story *s, char *buf, size_t cap);

/* "call 7 of the bad log, 6 of the good one"; "": it is of no call. */
void diff_numbers_text(const struct diff_story *s, char *buf, size_t cap);

/* "thread 2 (worker)" */
void diff_thread_text(const struct diff_threads *p, uint32_t pair, char *buf, size_t cap);

/* "the runs part at a branch": the heading of what lists them. */
void diff_parting_text(const struct diff_parting *p, char *buf, size_t cap);

/* "gser  tot_info.c:95" */
void diff_inlined_text(const struct diff_inlined *i, char *buf, size_t cap);

/* A frame of a stack, where inlined functions have frames of their own. */
struct diff_frame {
	const struct location *location; /* lives as long as the side */
	const struct frame_name *name;
	uint64_t address, offset; /* from the start of the function */
	bool inlined;
	const struct diff_function *function; /* where nothing else is known; NULL: all the others are */
};

/* Names the frames of @stack; @exact: the first is no return address. The caller frees *@ret. False: no
 * memory. */
bool diff_frames(struct diff_side *s, const struct diff_stack *stack, bool exact, struct diff_frame **ret,
		 size_t *n);

/* "main  app.c:10": where it is defined. */
void diff_function_text(const struct diff_function *f, char *buf, size_t cap);

/* "main+12  app.c:17"; of a frame of which the function is known alone, as above. */
void diff_frame_text(const struct diff_frame *f, char *buf, size_t cap);

#endif
