/*
 * stuck - a thread of the target that comes no further, because the signal of each hit leads to the next one.
 * Reported from what it records again and again. The guard in the kernel sends such a thread no signal.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_STUCK_H
#define WATCHCTL_ENGINE_INTAKE_STUCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "handler/wire.h"

struct stuck {
	uint32_t tid; /* of the last hit in user code, its registers, and how often in a row it was there */
	uint32_t in_a_row;
	uint32_t late_in_a_row; /* ... with nothing executed in between */
	struct regs regs;
	bool restarting; /* the signal makes the kernel start again the code that makes the access */
	bool standing;	 /* the signal's frame, or what handles it, is a hit itself */
};

/* A record of a hit in user code, one after the other. */
void stuck_look(struct stuck *s, pid_t pid, const struct wire_record *r);

/* What it is that keeps a thread, to follow "process N"; NULL: none is stuck. */
const char *stuck_why(const struct stuck *s);

#endif
