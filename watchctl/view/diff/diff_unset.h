/*
 * diff_unset - memory on a stack that was not seen to be written: until it changes, the target of a pointer
 * parameter may contain data of frames that have ended.
 *
 * A log contains memory only where a call gets a pointer to it. When a frame's memory is recorded for the first
 * time, it is not known whether the frame has set it or leaves this to the call. Later, a byte that has changed
 * has been written; a byte that has not changed may not have been written.
 */
#ifndef WATCHCTL_VIEW_DIFF_DIFF_UNSET_H
#define WATCHCTL_VIEW_DIFF_DIFF_UNSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/map64.h"

struct unset_word;

/* Zero-initialised is empty. */
struct diff_unset {
	struct map64 at; /* address / 8 -> index in word + 1 */
	struct unset_word *word;
	size_t n, cap;
};

/* Memory that a call is shown. */
struct unset_view {
	uint64_t addr;
	const uint8_t *bytes;
	uint32_t len;
	uint64_t frame; /* a number of the frame that the memory lies in: another one's is forgotten */
	bool is_input;	/* what is shown for the first time has been set: the call may only read it */
};

/* Sets or clears ret[i] (of @v's len): byte i may never have been written. False: no memory. */
bool diff_unset_see(struct diff_unset *u, const struct unset_view *v, bool *ret);

void diff_unset_deinit(struct diff_unset *u);

#endif
