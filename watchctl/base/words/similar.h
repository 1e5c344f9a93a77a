/* similar - the names that somebody who mistyped one may have meant. */
#ifndef WATCHCTL_BASE_WORDS_SIMILAR_H
#define WATCHCTL_BASE_WORDS_SIMILAR_H

#include <stdbool.h>
#include <stddef.h>

#define SIMILAR_MAX 3

struct similar {
	const char *text;
	size_t len;
	const char *best[SIMILAR_MAX]; /* nearest first */
	unsigned int distance[SIMILAR_MAX];
	size_t n;
};

/* @text must outlive @n, as must the names offered. */
void similar_init(struct similar *n, const char *text, size_t len);
void similar_offer(struct similar *n, const char *name);

/* "a", "a or b", "a, b or c"; false, and an empty list, when none is near. */
bool similar_list(const struct similar *n, char *buf, size_t cap);

#endif
