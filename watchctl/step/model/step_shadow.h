/*
 * step_shadow - a copy of objects in a process's memory, by which is seen what has changed since the last look.
 * Whoever ran in between has written it: with one thread, that is the innermost open call.
 */
#ifndef WATCHCTL_STEP_MODEL_STEP_SHADOW_H
#define WATCHCTL_STEP_MODEL_STEP_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watchctl/code/memory_view.h"
#include "watchctl/step/model/stepper.h"

struct shadow_span; /* objects that lie close to each other are read at once */

/* Words of an object of which some have changed, and up to SHADOW_AROUND bytes of it on either side. */
struct shadow_change {
	uint64_t address;
	uint32_t len;
	const uint8_t *bytes, *before; /* @len of each */
};

#define SHADOW_AROUND 256u
#define SHADOW_RUN_MAX 4096u /* bytes between the first and the last that has changed: more are two runs */

/* Zero-initialised is empty. */
struct step_shadow {
	struct stepper_code *object; /* by address */
	size_t n;
	struct shadow_span *span;
	size_t nspans, spans_cap;
	uint8_t *bytes, *now;
};

/* Other objects, none overlapping another, in any order; copied. False: no memory, and it is empty. */
bool step_shadow_set(struct step_shadow *s, const struct stepper_code *object, size_t n);

/* The next look only copies. */
void step_shadow_forget(struct step_shadow *s);

/*
 * Tells the words that have changed, those together that lie close to each other: a word is 8 bytes from the beginning
 * of the object, or what is left at its end. What cannot be read has not changed.
 */
void step_shadow_look(struct step_shadow *s, const struct memory_view *memory,
		      void (*changed)(void *ctx, const struct shadow_change *c), void *ctx);

void step_shadow_deinit(struct step_shadow *s);

#endif
