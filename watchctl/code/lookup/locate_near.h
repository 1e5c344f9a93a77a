/* locate_near - the names that are most like one that was not found; private to watchctl/code/. */
#ifndef WATCHCTL_CODE_LOOKUP_LOCATE_NEAR_H
#define WATCHCTL_CODE_LOOKUP_LOCATE_NEAR_H

#include <stdbool.h>
#include <stddef.h>

#define NEAR_MAX 5

struct near {
	const char *query;
	bool but_itself; /* the query is the name of something: that is not what is meant */
	size_t n;
	struct {
		char *name;
		unsigned int distance;
	} best[NEAR_MAX];
};

/* Whether a name judged by @key would be kept. */
bool near_takes(const struct near *near, const char *key);

/* Considers @name, judged by @key (its last component, say). Copies what it keeps. */
void near_offer(struct near *near, const char *key, const char *name);

/* "'a', 'b' or 'c'", malloc'd; NULL: nothing is near, or no memory. */
char *near_text(const struct near *near);

void near_deinit(struct near *near);

#endif
