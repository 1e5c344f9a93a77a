/*
 * diff_masks - what is not compared: named by the user, or learned from good runs that differ. A file has one
 * mask on each line; a comment after " # " says where it comes from.
 *
 *	FUNC		its calls, and all that they call: neither how many nor what they do
 *	FUNC:ARG	a parameter, by its name or as "#1" by its place, and what it points to
 *	FUNC:*ARG	only what it points to
 *	FUNC:calls	how often it is called: calls that the other run does not have are no difference
 *	FUNC:return	its result, errno, and what the result points to; and its changes
 *	FUNC:changes	what it changes in memory: behind its parameters, and variables
 *
 * FUNC may have the wildcards * ? [..]. A name of C++ may be given without its parameters.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_MASKS_H
#define WATCHCTL_VIEW_DIFF_DIFF_MASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/trace/event.h"

struct diff_mask {
	char *text; /* as above, without the comment */
	char *why;  /* NULL: not reported */
	bool learned;
	bool withheld; /* for a value that a log lacks on purpose: not written to a file */
	uint64_t hits; /* functions of the logs that it applies to */
};

/* Zero-initialised is empty. */
struct diff_masks {
	struct diff_mask *v;
	size_t n, cap;
	bool no_values; /* parameters and results of every function are left out */
};

/* What masks say about a function. Bits of params and pointees go by place. */
struct diff_masked {
	bool calls, optional, result, changes;
	uint64_t params, pointees;
};

/* A mask that is there already stays as it is. WC_EUSAGE: @text is none. */
struct wc_error *diff_masks_add(struct diff_masks *m, const char *text, const char *why, bool learned);

/* As that, of a value that a log lacks on purpose. */
struct wc_error *diff_masks_withhold(struct diff_masks *m, const char *text);

bool diff_masks_has(const struct diff_masks *m, const char *text);

/* WC_EFAIL: it cannot be read; WC_EUSAGE: a line of it is no mask. */
struct wc_error *diff_masks_read(struct diff_masks *m, const char *path);

/* Replaces the file. WC_EFAIL: it cannot be written. */
struct wc_error *diff_masks_write(const struct diff_masks *m, const char *path);

/* Counts hits. */
struct diff_masked diff_masks_of(struct diff_masks *m, const struct function_event *f);

/* True if the pattern @pattern, of @len characters, is a name for the function called @name (may be NULL). */
bool diff_name_matches(const char *pattern, size_t len, const char *name);

void diff_masks_deinit(struct diff_masks *m);

#endif
