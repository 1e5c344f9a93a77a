/* diff_html - what the parts of the page share. */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_HTML_H
#define WATCHCTL_VIEW_DIFF_DIFF_HTML_H

#include <stdio.h>

#include "watchctl/view/diff/diff.h"

struct diff_page {
	struct diff_result *r;
	FILE *out;
};

/* A clean text, with the characters escaped that HTML takes for its own. */
void diff_page_text(struct diff_page *p, const char *text);

/* The calls around the difference, as a tree of both sides. */
struct wc_error *diff_page_tree(struct diff_page *p, const struct diff_story *s);

#endif
