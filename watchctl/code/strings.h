/*
 * strings - texts kept once each, and small objects beside them, all released together; private to
 * watchctl/code/. The same few thousand names and files stand behind millions of frames.
 */
#ifndef WATCHCTL_CODE_STRINGS_H
#define WATCHCTL_CODE_STRINGS_H

#include <stddef.h>
#include <stdint.h>

struct strings_chunk;

/* Zero-initialised is empty. */
struct strings {
	const char **slot; /* by hash */
	size_t n, cap;
	struct strings_chunk *chunk;
};

/* The one copy of @text, which lives as long as @s. NULL: @text is NULL, or no memory. */
const char *strings_keep(struct strings *s, const char *text);

/* @size bytes, zeroed and aligned for pointers, that live as long as @s. NULL: no memory. */
void *strings_room(struct strings *s, size_t size);

void strings_deinit(struct strings *s);

#endif
