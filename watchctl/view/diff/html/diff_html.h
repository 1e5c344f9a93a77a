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

/* Both runs beside each other from the difference on. */
struct wc_error *diff_page_after(struct diff_page *p, const struct diff_story *s);

/*
 * For both: the class of a row, NO_CALL where a side has no call; one call as a cell, with the other attributes of the class
 * @more; and where on the other side calls begin that come behind @focus of side b (or a).
 */
const char *diff_page_class(const struct diff_threads *p, uint32_t a, uint32_t b);
struct wc_error *diff_page_cell(struct diff_page *page, const struct diff_threads *p, bool is_b, uint32_t i,
				const char *more);
uint64_t diff_page_beside(const struct diff_threads *p, bool is_b, uint32_t focus);

#endif
