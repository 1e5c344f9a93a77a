#include "watchctl/view/diff/diff_unset.h"

#include <stdlib.h>
#include <string.h>

#include "watchctl/base/vec.h"

struct unset_word {
	uint64_t frame;
	uint8_t first[8];	/* as they were when they were shown for the first time */
	uint8_t shown, written; /* bits: of bytes */
};

/* NULL: no memory. */
static struct unset_word *word_at(struct diff_unset *u, uint64_t addr, uint64_t frame)
{
	uintptr_t index = (uintptr_t)map64_get(&u->at, addr / 8);
	struct unset_word *w;

	if (!index) {
		if (!vec_push(u->word, u->n, u->cap, (struct unset_word){ .frame = frame }))
			return NULL;
		index = u->n;
		if (!map64_put(&u->at, addr / 8, (void *)index))
			return NULL;
	}
	w = &u->word[index - 1];
	if (w->frame != frame)
		*w = (struct unset_word){ .frame = frame };
	return w;
}

/* Whether the byte @at of the word may be unset. */
static bool see_byte(struct unset_word *w, unsigned int at, uint8_t byte, bool is_input)
{
	uint8_t bit = (uint8_t)(1u << at);

	if (!(w->shown & bit)) {
		w->shown |= bit;
		w->first[at] = byte;
		w->written |= is_input ? bit : 0;
	} else if (w->first[at] != byte) {
		w->written |= bit;
	}
	return !(w->written & bit);
}

bool diff_unset_see(struct diff_unset *u, const struct unset_view *v, bool *ret)
{
	struct unset_word *w = NULL;
	uint32_t i;

	for (i = 0; i < v->len; i++) {
		uint64_t addr = v->addr + i;

		if (!w || addr % 8 == 0)
			w = word_at(u, addr, v->frame);
		if (!w)
			return false;
		ret[i] = see_byte(w, addr % 8, v->bytes[i], v->is_input);
	}
	return true;
}

void diff_unset_deinit(struct diff_unset *u)
{
	map64_deinit(&u->at);
	free(u->word);
	*u = (struct diff_unset){ 0 };
}
