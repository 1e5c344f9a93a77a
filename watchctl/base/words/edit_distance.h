/* edit_distance - how many typing errors lie between two names. */
#ifndef WATCHCTL_BASE_WORDS_EDIT_DISTANCE_H
#define WATCHCTL_BASE_WORDS_EDIT_DISTANCE_H

#include <stdbool.h>
#include <stddef.h>

/* Longer names are compared by their beginnings. */
#define EDIT_DISTANCE_MAX 64

/*
 * Optimal string alignment: a character inserted, removed or replaced, and two neighbours swapped, count one each.
 * @ignore_case: letters of ASCII that differ only in case are the same. The names need no NUL.
 */
unsigned int edit_distance(const char *a, size_t na, const char *b, size_t nb, bool ignore_case);

#endif
