#include "watchctl/view/callpage/callpage_texts.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/hash.h"
#include "watchctl/base/vec.h"

const char *callpage_text_at(const struct callpage_texts *t, size_t i)
{
	return t->bytes.bytes + t->start[i];
}

static uint32_t add(struct callpage_texts *t, uint64_t key, const char *text, bool *ok)
{
	size_t len = strlen(text) + 1, start = t->bytes.len;

	if (start + len > t->max) {
		t->left_out++;
		return CALLPAGE_TEXT_LEFT_OUT;
	}
	text_buf_put(&t->bytes, text, len);
	if (t->bytes.failed || !vec_push(t->start, t->n, t->cap, start) ||
	    !map64_put(&t->by_hash, key, (void *)(uintptr_t)t->n)) {
		*ok = false;
		return CALLPAGE_TEXT_LEFT_OUT;
	}
	return (uint32_t)(t->n - 1) + CALLPAGE_FIRST_TEXT;
}

/* Texts of one hash have the keys behind it. */
uint32_t callpage_text(struct callpage_texts *t, const char *text, bool *ok)
{
	uint64_t key;
	void *known;

	if (!text)
		return CALLPAGE_NO_TEXT;
	for (key = hash_text(HASH_START, text); (known = map64_get(&t->by_hash, key)); key++) {
		size_t i = (size_t)(uintptr_t)known - 1;

		if (!strcmp(callpage_text_at(t, i), text))
			return (uint32_t)i + CALLPAGE_FIRST_TEXT;
	}
	return add(t, key, text, ok);
}

void callpage_texts_deinit(struct callpage_texts *t)
{
	text_buf_deinit(&t->bytes);
	map64_deinit(&t->by_hash);
	free(t->start);
	*t = (struct callpage_texts){ 0 };
}
