/*
 * ring - the controller's end of the record ring (handler/wire.h). Takes whole records out, in order.
 * What is in the ring is the target's word: sizes and counts are checked, a lie ends the recording.
 */
#ifndef WATCHCTL_ENGINE_INTAKE_HANDLER_RING_H
#define WATCHCTL_ENGINE_INTAKE_HANDLER_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "handler/wire.h"
#include "watchctl/engine/plan/area.h"

struct ring {
	const struct wire_area *area;
	uint64_t offset, size; /* of the ring in the area */
	uint64_t commit_key;
	uint64_t tail;
	uint8_t *record; /* the last one taken, our own copy */
};

enum ring_result {
	RING_RECORD,
	RING_EMPTY,
	RING_BUSY,    /* the next record is reserved but not whole yet */
	RING_CORRUPT, /* not what a handler writes */
	RING_GONE,    /* the memory cannot be read any more */
};

bool ring_init(struct ring *r, const struct wire_area *area, uint64_t offset, uint64_t size,
	       uint64_t commit_key);
void ring_deinit(struct ring *r);

/*
 * The next record; it lives until the next call. Its frames and raw stack follow it, inside its size:
 * that is checked here.
 */
enum ring_result ring_next(struct ring *r, const struct wire_record **ret);

/* Gives the space of everything taken so far back to the handler. */
void ring_release(struct ring *r);

#endif
