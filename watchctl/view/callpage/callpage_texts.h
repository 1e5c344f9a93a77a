/* callpage_texts - texts that many calls share, once each, up to a bound. */
#ifndef WATCHCTL_VIEW_CALLPAGE_CALLPAGE_TEXTS_H
#define WATCHCTL_VIEW_CALLPAGE_CALLPAGE_TEXTS_H

#include "watchctl/base/map64.h"
#include "watchctl/base/text_buf.h"

/* Numbers that are no text: none was recorded; there was no room for it. */
#define CALLPAGE_NO_TEXT 0u
#define CALLPAGE_TEXT_LEFT_OUT 1u
#define CALLPAGE_FIRST_TEXT 2u

/* Zero-initialised is empty, without room. */
struct callpage_texts {
	struct text_buf bytes; /* each ends with a NUL */
	size_t max;	       /* of these bytes */
	struct map64 by_hash;  /* number + 1 */
	size_t *start;	       /* in bytes, of text number - CALLPAGE_FIRST_TEXT */
	size_t n, cap;
	uint64_t left_out; /* how often there was no room */
};

/* The number of @text; NULL has CALLPAGE_NO_TEXT. *@ok becomes false for lack of memory. */
uint32_t callpage_text(struct callpage_texts *t, const char *text, bool *ok);

/* The @i-th of n. */
const char *callpage_text_at(const struct callpage_texts *t, size_t i);

void callpage_texts_deinit(struct callpage_texts *t);

#endif
