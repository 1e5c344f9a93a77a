/* near_name - the names that somebody who mistyped one may have meant, for a sentence. */
#ifndef WATCHCTL_PATCH_PLAN_NEAR_NAME_H
#define WATCHCTL_PATCH_PLAN_NEAR_NAME_H

#include <stddef.h>

#define NEAR_NAMES 3

struct near_names {
	const char *query;
	const char *best[NEAR_NAMES]; /* nearest first; the caller's */
	unsigned int distance[NEAR_NAMES];
	size_t n;
};

void near_names_offer(struct near_names *near, const char *name);

/* "; did you mean a or b?", or "". */
void near_names_text(const struct near_names *near, char *buf, size_t cap);

#endif
