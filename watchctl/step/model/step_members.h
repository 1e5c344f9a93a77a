/*
 * step_members - the changed bytes of a variable as the members of its type that they are in: what has no members of
 * its own, under a path like "table[2].count". The types are the planner's.
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_MEMBERS_H
#define WATCHCTL_STEP_MODEL_STEP_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/base/map64.h"
#include "watchctl/step/model/planner.h"
#include "watchctl/step/model/step_globals.h"

/* So many variables are looked up; the others have no type. */
#define MEMBERS_LOOKUPS_MAX 4096u

/* Zero-initialise, but for the first two, which outlive it. */
struct step_members {
	const struct planner_ops *ops;
	struct planner *planner;
	struct map64 known; /* a step_global's name -> its type's id + 1; NO_TYPE + 1: none */
	size_t lookups;
};

/* Bytes of a variable that are known. */
struct members_run {
	const struct step_global *of;
	uint32_t offset; /* in it, of the first; a multiple of 8 */
	uint32_t len;
	const uint8_t *bytes;
	const uint8_t *changed; /* bit by bit, a 1 for each that has changed */
};

struct changed_member {
	const char *path; /* at most 255 characters */
	uint32_t type; /* NO_TYPE: it is not known: words of 8 bytes from the beginning of the variable on */
	uint32_t offset; /* without a type, behind where @path begins */
	const uint8_t *bytes;
	uint32_t len; /* with a type, its size */
};

/*
 * Calls @each for the members that have changed bits in @r, in the order of the type; padding is none. An error of
 * @each ends it. Words of unions, of large arrays of characters, and of what is no more in @r have no type.
 */
struct wc_error *step_members_split(struct step_members *m, const struct members_run *r,
				    struct wc_error *(*each)(void *ctx, const struct changed_member *c),
				    void *ctx);

void step_members_deinit(struct step_members *m);

#endif
