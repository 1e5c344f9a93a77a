/*
 * diff_withheld - values that were intentionally withheld from one log are compared in neither: values missing
 * in both logs are not equal.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_WITHHELD_H
#define WATCHCTL_VIEW_DIFF_DIFF_WITHHELD_H

#include "watchctl/view/diff/diff_masks.h"

/*
 * Adds masks for the functions of the step log @path whose values were withheld, which are not saved with
 * others. *@functions counts them; *@all: those of every function. WC_ELOG as of tracelog_reader_open().
 */
struct wc_error *diff_withheld_read(const char *path, struct diff_masks *m, uint64_t *functions, bool *all);

#endif
