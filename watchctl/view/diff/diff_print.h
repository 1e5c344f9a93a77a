/* diff_print - the result of a diff, as text for people, JSON for programs, and a page to look around in. */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_PRINT_H
#define WATCHCTL_VIEW_DIFF_DIFF_PRINT_H

#include <stdio.h>

#include "watchctl/view/diff/diff.h"

struct diff_print_options {
	bool colour;
	unsigned int width; /* of the terminal; 0: none */
	size_t groups;	    /* text, HTML: rows of the list of all differences; JSON has all */
};

/* Write errors stay in @out. Errors as of diff_group_story(). */
struct wc_error *diff_print_text(struct diff_result *r, FILE *out, const struct diff_print_options *o);
struct wc_error *diff_print_json(struct diff_result *r, FILE *out);
struct wc_error *diff_print_html(struct diff_result *r, FILE *out, const struct diff_print_options *o);

#endif
