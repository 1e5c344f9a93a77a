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
	char *exe;	      /* the program's file; NULL: not known */
	struct map64 functions, modules;
};

/* All but the maps. @ret is zeroed; its owner deinits it, also when this fails. */
struct wc_error *diff_told_read(const char *path, struct diff_told *ret);
/* The maps, after that. @program: as of diff_module_name(). */
struct wc_error *diff_told_read_functions(const char *path, bool by_name, const char *program,
					  struct diff_told *t);
void diff_told_deinit(struct diff_told *t);

/* It records other functions of that one's module, but not the one of this @identity. @program: of @f's log. */
bool diff_told_lacks(const struct diff_told *t, uint64_t identity, const struct function_event *f,
		     const char *program);

/* It records the values of the function of this @identity, if @f has none, or has none itself, if @f has some. */
bool diff_told_values_differ(const struct diff_told *t, uint64_t identity, const struct function_event *f);

#endif
