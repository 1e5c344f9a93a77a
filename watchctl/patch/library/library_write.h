/* library_write - a drop-in library with its original beside it, in a folder: both or none. */
#ifndef WATCHCTL_PATCH_LIBRARY_LIBRARY_WRITE_H
#define WATCHCTL_PATCH_LIBRARY_LIBRARY_WRITE_H

#include "watchctl/base/error.h"
#include "watchctl/patch/library/library_plan.h"
#include "watchctl/patch/library/library_source.h"

/* Whether a drop-in for @s may be written into @folder, which need not be there yet. WC_EUSAGE, WC_EPERM: why not. */
struct wc_error *library_write_check(const struct library_source *s, const char *folder);

/*
 * FOLDER/SONAME and FOLDER/SONAME.orig, in place of those of an earlier drop-in. They get these names when they are complete: a
 * program that has the old ones loaded keeps them. @watchctl: what will be executed to patch.
 */
struct wc_error *library_write(const struct library_source *s, const struct library_plan *plan,
			       const char *watchctl, const char *folder);

#endif
