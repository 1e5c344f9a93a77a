/*
 * functions_file - a selection of functions in a text file: a glob a line chooses, "!glob" excludes; '#' begins a comment, and lines may
 * be blank. Globs are those of --function and --not.
 */
#ifndef WATCHCTL_CLI_REQUEST_FUNCTIONS_FILE_H
#define WATCHCTL_CLI_REQUEST_FUNCTIONS_FILE_H

#include <stddef.h>

#include "watchctl/base/error.h"

struct functions_file {
	char **function, **without; /* in the order of the lines; owned */
	size_t nfunctions, function_cap, nwithout, without_cap;
};

/*
 * Appends what the file at @path says to *@f, which zeros initialise, and which functions_file_deinit() releases after an error, too.
 * WC_EUSAGE: it cannot be read, holds no glob, or has a line that is none, with file, line and a caret.
 */
struct wc_error *functions_file_read(struct functions_file *f, const char *path);
void functions_file_deinit(struct functions_file *f);

#endif
