/*
 * source_path - where a source file lies that debug information names relative to the folder it was compiled
 * in.
 */
#ifndef WATCHCTL_CODE_SYMBOLS_SOURCE_PATH_H
#define WATCHCTL_CODE_SYMBOLS_SOURCE_PATH_H

#include "watchctl/base/error.h"

/* How many files go by that name in a module. */
enum source_found {
	SOURCE_UNKNOWN,	  /* none, or in a folder that is not reported */
	SOURCE_FOUND,	  /* one */
	SOURCE_AMBIGUOUS, /* several */
};

/*
 * The absolute path of @file, as a frame_name has it, in the debug information of the program or library that
 * lies at @module: reads all of its line tables. Stores it in *@ret, malloc'd, when there is one. Fails for
 * lack of memory.
 */
struct wc_error *source_path(const char *module, const char *file, char **ret, enum source_found *found);

#endif
