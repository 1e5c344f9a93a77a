/* page_file - a page becomes a file, whole or not at all. */
#ifndef WATCHCTL_CLI_OUTPUT_PAGE_FILE_H
#define WATCHCTL_CLI_OUTPUT_PAGE_FILE_H

#include <stdio.h>

#include "watchctl/base/error.h"

struct page_writer {
	struct wc_error *(*write)(const void *ctx, FILE *out); /* errors of @out are left to ferror() */
	const void *ctx;
};

/*
 * To @file, "-" for standard output. A file is replaced when the new one is whole, and is its owner's alone; devices, pipes and links are
 * written to. On failure @file is left as it was.
 */
struct wc_error *page_file_write(const struct page_writer *w, const char *file);

#endif
