/* text_shorten - names that are too long for where they stand. */
#ifndef WATCHCTL_VIEW_WORDS_TEXT_SHORTEN_H
#define WATCHCTL_VIEW_WORDS_TEXT_SHORTEN_H

#include <stddef.h>

/*
 * Makes the clean text @s, a function's name, fit @columns (at least 8) where it does not: takes out what
 * stands between the brackets of C++, template arguments first, then parameters; then the middle.
 */
void text_shorten(char *s, size_t columns);

/* Takes out the middle of the clean text @s, "...", so that it fits @columns; at least 8. */
void text_cut_middle(char *s, size_t columns);

#endif
