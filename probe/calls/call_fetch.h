/* call_fetch - carries out a struct call_plan where the program has come to a site. Freestanding, as all that runs in the program. */
#ifndef PROBE_CALLS_CALL_FETCH_H
#define PROBE_CALLS_CALL_FETCH_H

#include <stdint.h>

#include "probe/calls/call_wire.h"

struct call_fetch_source {
	const struct call_shared *shared;
	const struct call_thread_place *place;
	const uint64_t *
		regs; /* the 16 general registers, by DWARF's numbers; the others still have what the program has in them */
};

/*
 * Writes what struct call_values.bytes has; what has no room is not there. *@dirty: up to where memory was written, at most @end. Returns
 * where the next byte would go.
 */
uint8_t *call_fetch_all(const struct call_fetch_source *s, const struct call_plan *plan, uint8_t *to,
			uint8_t *end, uint8_t **dirty) __attribute__((visibility("hidden")));

#endif
