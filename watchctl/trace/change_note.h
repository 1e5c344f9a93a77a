/*
 * change_note - the sentence about a value that has changed without an access. It is written here, and so are its values
 * taken out again where they are not to be known.
 */
#ifndef WATCHCTL_TRACE_CHANGE_NOTE_H
#define WATCHCTL_TRACE_CHANGE_NOTE_H

#include <stdbool.h>

/* Texts, as people read them. */
struct change_note {
	const char *name;
	const char *from, *to; /* NULL: withheld */
	const char *after, *before;
	const char *reasons;
};

/* Malloc'd; NULL: no memory. */
char *change_note_text(const struct change_note *n);

/* @text without the values, malloc'd. NULL: it is no such sentence, has none, or there is no memory: *ok false. */
char *change_note_withhold(const char *text, bool *ok);

#endif
