/* step_stack - a raw piece of stack -> return addresses. */
#ifndef WATCHCTL_STEP_MODEL_STEP_STACK_H
#define WATCHCTL_STEP_MODEL_STEP_STACK_H

#include <stdint.h>

#include "watchctl/code/unwind/cfi.h"
#include "watchctl/step/model/stepper.h"

struct step_frames {
	uint64_t v[STACK_MAX];
	uint32_t n;
	uint8_t walk_end;
};

/*
 * The return addresses of a thread that stands at a function's first instruction, as far as @rec's stack
 * reaches. Without one: the return address that its call has.
 */
void step_stack_callers(struct cfi *cfi, const struct step_record *rec, struct step_frames *ret);

/* All frames of a thread that stands anywhere; v[0] is where it stands. */
void step_stack_whole(struct cfi *cfi, const struct step_record *rec, struct step_frames *ret);

#endif
