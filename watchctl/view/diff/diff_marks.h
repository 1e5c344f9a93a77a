/*
 * diff_marks - watch logs and tag logs compared: the accesses of each watch, and the captures of each tag and
 * thread, as sequences of places with values.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_MARKS_H
#define WATCHCTL_VIEW_DIFF_DIFF_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/error.h"
#include "watchctl/trace/redact.h"
#include "watchctl/view/diff/base/diff_align.h"

/* An access or a capture. */
struct diff_mark {
	struct diff_item
		item; /* key: place and kind of access, of captures the whole stack; exact: the value too */
	uint64_t time_ns;
	uint32_t place, value, stack, thread; /* indices of texts */
};

struct diff_marks_row {
	uint32_t place; /* text */
	uint64_t a, b;	/* how many there were */
};

/* A watch, or a tag in a thread. */
struct diff_stream {
	char *name;
	bool is_tag;
	bool withheld; /* a log lacks values of it on purpose: none are compared */
	struct diff_mark *a, *b;
	size_t na, nb, a_cap, b_cap;
	uint64_t only_a, only_b, values; /* those without a mate; those whose values differ */
	bool has_first;
	uint32_t first_a, first_b;  /* the first difference; NO_MATE: on that side there is none */
	struct diff_marks_row *row; /* places whose counts differ, most different first */
	size_t nrows, rows_cap;
};

struct diff_marks {
	struct diff_stream *v;
	size_t n, cap;
	char **text;
	size_t ntexts, texts_cap;
	uint64_t differences;
	uint64_t withheld; /* streams */
};

struct progress;

struct diff_marks_options {
	bool by_name;		    /* places by function, not by offset */
	struct redact_rules redact; /* whose values are compared, but not shown */
	struct progress *progress;  /* of reading; NULL: nobody looks */
	bool cut_a, cut_b; /* that log is not whole: what the other one has behind its end is no difference */
	bool no_names;	   /* without the names that were added to the logs: one has lost some */
};

/* Reads both logs and compares them. @ret: zeroed; deinit it also after an error. */
struct wc_error *diff_marks_run(const char *a, const char *b, const struct diff_marks_options *o,
				struct diff_marks *ret);

void diff_marks_deinit(struct diff_marks *m);

#endif
