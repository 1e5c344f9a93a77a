/* diff_text - what the parts of the text printer of a diff share. */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_TEXT_H
#define WATCHCTL_VIEW_DIFF_DIFF_TEXT_H

#include "watchctl/view/diff/diff_print.h"
#include "watchctl/view/print/printer.h"

struct diff_text {
	struct diff_result *r;
	FILE *out;
	struct printer *p; /* for its styles */
	unsigned int width;
	size_t groups;
};

/* diff_text_marks.c */
void diff_print_marks(struct diff_text *t);

#endif
