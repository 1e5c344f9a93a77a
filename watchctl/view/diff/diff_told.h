/*
 * diff_told - which functions a log with calls in files of their own records. Such a log tells all of a module at once,
 * called or not: one that is not told is not recorded.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_TOLD_H
#define WATCHCTL_VIEW_DIFF_DIFF_TOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "watchctl/base/map64.h"

struct wc_error;
struct function_event;

struct diff_told {
	bool is_compact;      /* false: the log has no such calls, and no maps are filled in */
	unsigned int changes; /* RECORDING_CHANGED_: of a step recording */
	struct map64 functions, modules;
};

/* @ret is zeroed; its owner deinits it, also when this fails. */
struct wc_error *diff_told_read(const char *path, bool by_name, struct diff_told *ret);
void diff_told_deinit(struct diff_told *t);

/* It records other functions of that one's module, but not the one of this @identity. */
bool diff_told_lacks(const struct diff_told *t, uint64_t identity, const struct function_event *f);

/* It records the values of the function of this @identity, if @f has none, or has none itself, if @f has some. */
bool diff_told_values_differ(const struct diff_told *t, uint64_t identity, const struct function_event *f);

#endif
